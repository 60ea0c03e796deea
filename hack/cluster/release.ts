import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import packageJson from '../../package.json' with { type: 'json' };
import { NODE_FLAGS } from '../agent-release.ts';
import { bundle, type Origin } from '../build.ts';
import { hostArchitecture, saveImage } from '../image.ts';
import { type Ground, groundImage, productImage, products } from '../package/images.ts';
import { librariesFor } from '../package/parts.ts';
import { ROOT } from '../paths.ts';

/** The image of a release for tests: made as `make release` makes it, for this platform alone, and with the Node that runs this. */
const { version: OWN } = packageJson;
const NODE = join(ROOT, 'node_modules/node/bin/node');
const originOf = (version: string): Origin => ({ version, revision: 'test', created: new Date(0) });

/** The program of another version is this one, which says another version of itself. */
function relabelled(path: string, version: string): void {
  if (version !== OWN) writeFileSync(path, readFileSync(path, 'utf8').replaceAll(`"${OWN}"`, `"${version}"`));
}

/**
 * The image of the controller, as an archive; its reference is that of a release. Its programs are those of the sources, or
 * bundles in a folder, which are changed if the version is another one.
 */
export async function controllerImage({
  version = OWN,
  bundles: folder,
}: {
  version?: string;
  bundles?: string;
} = {}): Promise<Buffer> {
  const dir = mkdtempSync(join(tmpdir(), 'skerry-image-'));
  const programOf = async (name: 'skerry' | 'skerry-templates') =>
    folder ? { path: join(folder, `${name}.mjs`), packages: [] } : bundle(name, dir);
  try {
    const bundles = {
      skerry: await programOf('skerry'),
      'skerry-templates': await programOf('skerry-templates'),
      'skerry-agent': { path: '', packages: [] },
    };
    relabelled(bundles.skerry.path, version);
    const architecture = hostArchitecture();
    const license = join(ROOT, 'LICENSE');
    const ground: Ground = { node: { binary: NODE, license }, libraries: await librariesFor(architecture) };
    const [controller] = products(bundles, NODE_FLAGS);
    if (!controller) throw new Error('there is no image of the controller');
    const origin = originOf(version);
    const below = groundImage(ground, architecture, origin, 1);
    return saveImage(productImage(controller, ground, below, architecture, origin).image, controllerReference(version));
  } finally {
    rmSync(dir, { recursive: true });
  }
}

const controllerReference = (version = OWN) => `skerry/controller:${version}`;
