import { join } from 'node:path';
import { NODE_FLAGS } from './agent-release.ts';
import { findTools } from './binaries.ts';
import { bundle, type Origin } from './build.ts';
import { findEtcdClient } from './etcd-client.ts';
import { hostArchitecture, type Image } from './image.ts';
import { controlPlaneProduct, type Ground, groundImage, productImage } from './package/images.ts';
import { librariesFor } from './package/parts.ts';
import { programPart } from './package/programs.ts';
import { ROOT } from './paths.ts';
import type { Log } from './progress.ts';

/** The image of the control plane of the present sources, with the Node and the programs that tests have anyway; its bundles go into `dir`. */
export async function controlPlaneImage(dir: string, log?: Log, origin: Origin = TEST_ORIGIN): Promise<Image> {
  const architecture = hostArchitecture();
  const { etcd, ...kubernetes } = await findTools(['etcd', 'kube-apiserver', 'kube-controller-manager'], { log });
  const paths = { etcd, etcdutl: await findEtcdClient('etcdutl', log), ...kubernetes };
  const programs = Object.entries(paths).map(([name, binary]) => ({
    ...{ name, binary },
    part: programPart(name as keyof typeof paths),
  }));
  const bundled = {
    skerry: await bundle('skerry', dir, origin),
    'skerry-templates': await bundle('skerry-templates', dir, origin),
    'skerry-control-plane': await bundle('skerry-control-plane', dir, origin),
    'kubectl-skerry': await bundle('kubectl-skerry', dir, origin),
  };
  const node = { binary: join(ROOT, 'node_modules/node/bin/node'), license: join(ROOT, 'LICENSE') };
  const ground: Ground = { node, libraries: await librariesFor(architecture), programs };
  const below = groundImage(ground, architecture, origin, STORED);
  return productImage(controlPlaneProduct(bundled, NODE_FLAGS), ground, below, architecture, origin, STORED).image;
}

/** Nobody pulls it, so that nothing is compressed. */
const STORED = 0;
const TEST_ORIGIN: Origin = { version: '0.0.1', revision: 'test', created: new Date(0) };
