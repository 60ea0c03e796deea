import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { TransportError } from '../../../src/kube/api-error.ts';
import type { KubeClient } from '../../../src/kube/mod.ts';
import { createPlugin, pluginWith } from '../_plugin.ts';
import { loadCluster } from './cluster.ts';

function kubeconfig(content?: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'skerry-kubeconfig-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'config');
  if (content !== undefined) writeFileSync(file, content);
  return file;
}
test.each([
  [
    'does not exist',
    undefined,
    /^error: the kubeconfig cannot be read: ENOENT: .*; --kubeconfig or \$KUBECONFIG names another one\n$/,
  ],
  ['is empty', '', /^error: the kubeconfig cannot be read: .*empty; --kubeconfig or \$KUBECONFIG names another one\n$/],
])('a kubeconfig that %s is the reason in the error', async (_, content, said) => {
  const skerry = pluginWith(loadCluster);
  const { code, err } = await skerry('get', 'apps', '--kubeconfig', kubeconfig(content));
  expect(err).toMatch(said);
  expect(code).toBe(1);
});

test.each([
  [
    'connect ECONNREFUSED 10.0.0.1:6443',
    { code: 'ECONNREFUSED' },
    'the API server of the kubeconfig does not answer: ',
  ],
  ['no credentials for the API server: no such program', new Error('no such program'), ''],
])('an API server that cannot be asked, %j, is the reason in the error', async (message, cause, before) => {
  const list = () => Promise.reject(new TransportError('refused', message, cause));
  const { err } = await createPlugin({ list } as unknown as KubeClient, 'skerry')('get', 'apps');
  expect(err).toBe(`error: ${before}${message}\n`);
});
