import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { describe, expect, inject, test } from 'vitest';
import { findTools } from '../../../hack/binaries.ts';
import { routes } from '../../assembly/routes.ts';
import { startTestCluster } from '../_cluster.ts';
import type { Permission } from '../contract/route.ts';
import { ROLE_NAMES, type RoleName } from './roles.ts';

/** The table of docs/access.md, at both doors: over REST, and as `kubectl auth can-i` says it. */

const cluster = await startTestCluster();
const { client } = await cluster.startReplica();
const { kubectl } = await findTools(['kubectl']);

const READ = ['get', 'list', 'watch'];
const WRITE = [...READ, 'create', 'update', 'patch', 'delete'];
const WORDS: Readonly<Record<string, readonly string[]>> = { read: READ, write: WRITE };

/** The verbs of each role by resource, as people read them. */
const documented = new Map<string, Record<RoleName, Set<string>>>();
const page = readFileSync(new URL('../../../docs/access.md', import.meta.url), 'utf8');
const [, section = ''] = page.split('## What the roles permit');
for (const line of section.split('## ')[0]?.split('\n') ?? []) {
  const [, resource, ...cells] = /^\| `([^`]+)` \| (.*) \|$/.exec(line)?.flatMap((one) => one.split(' | ')) ?? [];
  if (!resource) continue;
  const verbs = cells.map((cell) => new Set(cell.split(', ').flatMap((word) => WORDS[word] ?? (word ? [word] : []))));
  documented.set(resource, Object.fromEntries(ROLE_NAMES.map((role, at) => [role, verbs[at]])) as never);
}

test('the table is read', () => {
  expect(documented.get('edgenodes')?.viewer).toEqual(new Set(READ));
  expect(documented.get('edgenodes')?.sre).toEqual(new Set(WRITE));
  expect(documented.get('authadmin')?.sre).toEqual(new Set());
  expect(documented.size).toBeGreaterThan(50);
});

describe.each(ROLE_NAMES)('the role %s', (role) => {
  test('has over REST what the table says, at one route for each resource and verb', async () => {
    const as = client.as(await cluster.token(role));
    const seen = new Set<string>();
    for (const { access, method, path } of routes) {
      if (typeof access !== 'object') continue;
      const { resource, verb } = access as Permission;
      if (seen.has(`${verb} ${resource}`)) continue;
      seen.add(`${verb} ${resource}`);
      const { status } = await as.request(method, path.replaceAll(/\{\w+\}/g, '7'));
      const allowed = documented.get(resource)?.[role].has(verb);
      expect(status === 403, `${method} ${path}: ${status}`).toBe(!allowed);
    }
    expect(seen.size).toBeGreaterThan(80);
  });

  test('has with kubectl what the table says', async () => {
    const { stdout } = await promisify(execFile)(kubectl, [
      ...['--kubeconfig', inject('kubeconfig'), '--namespace', cluster.namespace, 'auth', 'can-i', '--list'],
      ...['--no-headers', `--as=system:serviceaccount:${cluster.namespace}:${role}`],
    ]);
    const rules = stdout.split('\n').flatMap((line) => {
      const [, what = '', names = '', verbs = ''] = /^(\S+)\s+\[\]\s+\[([^\]]*)\]\s+\[([^\]]*)\]/.exec(line) ?? [];
      const [, resource, part = ''] = /^([^./]+)\.skerry\.dev(\/.+)?$/.exec(what) ?? [];
      return resource && !names ? [{ resource: `${resource}${part}`, verbs: verbs.split(' ') }] : [];
    });
    for (const [resource, verbs] of documented) {
      const may = (verb: string) =>
        rules.some(
          (rule) => ['*', resource].includes(rule.resource) && (rule.verbs.includes('*') || rule.verbs.includes(verb)),
        );
      for (const verb of [...WRITE, 'bind'])
        if (role !== 'admin' || verbs.admin.has(verb))
          expect(may(verb), `${verb} ${resource}`).toBe(verbs[role].has(verb));
    }
  });
});
