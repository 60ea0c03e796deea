import { execFileSync } from 'node:child_process';
import { globSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { AGENT_VERSION } from '../../agent/src/domain/names.ts';
import packageJson from '../../package.json' with { type: 'json' };
import { CRD_VERSION } from '../../src/api/crd.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { ROOT } from '../paths.ts';
import { chartArchive, krewManifest, pluginArchive } from './cluster.ts';

test('every part of a release has the version of package.json', () => {
  const chart = parse(readFileSync(join(ROOT, 'charts/skerry/Chart.yaml'), 'utf8'));
  const own = ['agent', 'cli'].map(
    (name) => JSON.parse(readFileSync(join(ROOT, name, 'package.json'), 'utf8')).version,
  );
  const versions = [chart.version, chart.appVersion, AGENT_VERSION, ...own];
  expect(new Set(versions)).toEqual(new Set([packageJson.version]));
  for (const file of globSync('crds/*.yaml', { cwd: ROOT }))
    expect(parse(readFileSync(join(ROOT, file), 'utf8')).metadata.annotations).toMatchObject({
      [CRD_VERSION]: packageJson.version,
    });
  expect(readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8')).toContain(`\n## ${packageJson.version}\n`);
});

test('generated manifests mean the same to readers of YAML 1.1, such as kubectl and Helm, as to those of 1.2', () => {
  const files = globSync('{crds,manifests,charts/skerry/templates}/*.yaml', { cwd: ROOT });
  for (const file of files) {
    const text = readFileSync(join(ROOT, file), 'utf8')
      .replace(/^\{\{-.*\n/gm, '')
      .replaceAll(/\{\{.*?\}\}/g, 'value');
    if (!text.startsWith('# Generated')) continue;
    const read = (version: '1.1' | '1.2') =>
      parseAllDocuments(text, { version, merge: false }).map((document) => document.toJS());
    expect(read('1.1'), file).toEqual(read('1.2'));
  }
  expect(files.length).toBeGreaterThan(10);
});

test('the archive of the chart begins with Chart.yaml, has the schema of its values, and is made the same twice', () => {
  const names = execFileSync('tar', ['-tzf', '-'], { input: chartArchive(), encoding: 'utf8' }).trim().split('\n');
  expect(names[0]).toBe('skerry/Chart.yaml');
  for (const name of ['values.schema.json', 'templates/controller.yaml', 'LICENSE'])
    expect(names).toContain(`skerry/${name}`);
  expect(chartArchive().equals(chartArchive())).toBe(true);
});

test('the plugin runs with the Node beside it, also through a link on PATH', () => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, 'plugin'), 'console.log(process.argv.slice(2).join())');
  writeFileSync(join(folder, 'node.sh'), `#!/bin/sh\nexec '${process.execPath}' "$@"\n`);
  const input = pluginArchive({ plugin: join(folder, 'plugin'), node: join(folder, 'node.sh'), notice: 'notice' });
  mkdirSync(join(folder, 'store'));
  mkdirSync(join(folder, 'bin'));
  execFileSync('tar', ['-xzf', '-', '-C', join(folder, 'store')], { input });
  symlinkSync('../store/kubectl-skerry', join(folder, 'bin/kubectl-skerry'));
  const env = { ...process.env, PATH: `${join(folder, 'bin')}:/usr/bin:/bin` };
  expect(execFileSync('kubectl-skerry', ['get', 'nodes'], { env, encoding: 'utf8' })).toBe('get,nodes\n');
});

test('the manifest for krew has an archive with its digest for each platform', () => {
  const files = [{ platform: 'darwin-arm64', uri: 'https://example.com/a.tar.gz', sha256: 'ab' }] as const;
  expect(parse(krewManifest('1.2.3', files))).toMatchObject({
    metadata: { name: 'skerry' },
    spec: {
      version: 'v1.2.3',
      platforms: [
        {
          selector: { matchLabels: { os: 'darwin', arch: 'arm64' } },
          ...{ uri: 'https://example.com/a.tar.gz', sha256: 'ab', bin: 'kubectl-skerry' },
        },
      ],
    },
  });
});
