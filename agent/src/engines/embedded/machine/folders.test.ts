import { chmodSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../../../../testing/temporary-folder.ts';
import { makeContainerdFolders } from './folders.ts';
import { containerdPlaces } from './places.ts';

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);

test.each(['new', 'made by an earlier release'])('a root that is %s is for its owner alone', (state) => {
  const folder = temporaryFolder();
  const [root, run] = [join(folder, 'root'), join(folder, 'run')];
  const places = containerdPlaces({ root, state: run, name: 'skerry0', systemd: false });
  if (state !== 'new') {
    mkdirSync(root);
    chmodSync(root, 0o711);
  }
  makeContainerdFolders(places);
  expect([root, run, places.networks, places.registries].map(modeOf)).toEqual(['700', '711', '755', '755']);
});
