import { readFileSync } from 'node:fs';
import type { Origin } from '../build.ts';
import { buildImage, buildIndex, type Image, type ImageFile, type ImageSpec } from '../image.ts';
import { billOfMaterials, libraryParts, nodePart, notice, type Part, packageParts } from './contents.ts';
import type { NodeParts } from './parts.ts';
import type { ImageArchitecture } from './pinned.ts';

/** One of the images of a release. */
export interface Product {
  name: 'skerry-controller' | 'skerry-agent' | 'skerry-control-plane';
  title: string;
  /** bundles, the first of which is started */
  bundles: readonly string[];
  /** folders of the packages in these bundles */
  packages: readonly string[];
  nodeFlags?: readonly string[];
  /** with the programs of a control plane, and bundles that people call by their names */
  controlPlane?: { commands: Readonly<Record<string, string>> };
  settings: Pick<ImageSpec, 'cmd' | 'user' | 'ports' | 'volumes' | 'env'>;
}

/** What the images of an architecture have below their own layer. */
export interface Ground {
  node: NodeParts;
  /** absent on a base that has them */
  libraries?: readonly ImageFile[];
  base?: Image;
  /** of a control plane, for this architecture */
  programs?: readonly ControlPlaneProgram[];
}

/** A program of others in the image of the control plane. */
export interface ControlPlaneProgram {
  name: string;
  /** path of the binary */
  binary: string;
  part: Part;
}

const NONROOT = 65532;
/** Of the layers: it is spent once, and each node that pulls the image saves by it. */
const COMPRESSION = 6;
const FOLDER = '/opt/skerry';

/** Node with its libraries: a layer that the images of one architecture share, so that it is stored and pulled once. */
export function groundImage(
  ground: Ground,
  architecture: ImageArchitecture,
  { created }: Origin,
  compression = COMPRESSION,
): Image {
  const accounts = (lines: string) => lines.replaceAll(/^ +/gm, '');
  const system: ImageFile[] = [
    {
      path: '/etc/passwd',
      content: accounts(`root:x:0:0:root:/:/sbin/nologin
        nonroot:x:${NONROOT}:${NONROOT}:nonroot:/:/sbin/nologin
      `),
    },
    { path: '/etc/group', content: accounts(`root:x:0:\nnonroot:x:${NONROOT}:\n`) },
    { path: '/etc/nsswitch.conf', content: 'hosts: files dns\n' },
    { path: '/tmp', mode: 0o1777 },
  ];
  const node: ImageFile[] = [
    { path: '/usr/bin/node', content: readFileSync(ground.node.binary), mode: 0o755 },
    { path: '/usr/share/doc/node/LICENSE', content: readFileSync(ground.node.license) },
  ];
  const files = ground.base ? node : [...system, ...(ground.libraries ?? []), ...node];
  return buildImage({
    ...{ files, architecture, created: created.toISOString(), compression },
    ...(ground.base && { base: ground.base }),
    env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' },
  });
}

export interface ProductImage {
  image: Image;
  billOfMaterials: string;
}

/** The image of a product for one architecture. */
export function productImage(
  product: Product,
  ground: Ground,
  below: Image,
  architecture: ImageArchitecture,
  origin: Origin,
  compression = COMPRESSION,
): ProductImage {
  const { name, title, bundles, packages, nodeFlags = [], controlPlane, settings } = product;
  const programs = controlPlane ? (ground.programs ?? []) : [];
  const parts = [
    ...programs.map(({ part }) => part),
    ...packageParts(packages),
    nodePart(`linux-${architecture}`, ground.node.license),
    ...(ground.libraries ? libraryParts(architecture) : []),
  ];
  const bill = billOfMaterials({ name, version: origin.version, created: origin.created }, parts);
  const document = `/usr/share/doc/${name}`;
  const placed = bundles.map((path) => ({ path: `${FOLDER}/${path.split('/').at(-1)}`, content: readFileSync(path) }));
  const image = buildImage({
    base:
      programs.length > 0
        ? withPrograms(below, programs, { architecture, compression, created: origin.created.toISOString() })
        : below,
    architecture,
    created: origin.created.toISOString(),
    compression,
    files: [
      ...placed,
      ...Object.entries(controlPlane?.commands ?? {}).map(([command, file]) => ({
        ...{ path: `/usr/bin/${command}`, mode: 0o755 },
        // The plugin reads the address that machines reach the controller by.
        content: `#!/usr/bin/node\nprocess.env.SKERRY_CONTROLLER ??= process.env.CONTROLLER_PUBLIC_URL;\nimport('${FOLDER}/${file}');\n`,
      })),
      { path: `${document}/NOTICE`, content: notice(title, parts) },
      { path: `${document}/sbom.cdx.json`, content: bill },
    ],
    entrypoint: ['/usr/bin/node', ...nodeFlags, placed[0]?.path ?? ''],
    labels: {
      'org.opencontainers.image.title': name,
      'org.opencontainers.image.description': title,
      'org.opencontainers.image.version': origin.version,
      'org.opencontainers.image.revision': origin.revision,
      'org.opencontainers.image.created': origin.created.toISOString(),
      'org.opencontainers.image.licenses': 'Apache-2.0',
    },
    ...settings,
  });
  return { image, billOfMaterials: bill };
}

/** A layer of its own, since these programs change less often than the bundles. */
function withPrograms(
  base: Image,
  programs: readonly ControlPlaneProgram[],
  how: Pick<ImageSpec, 'architecture' | 'compression' | 'created'>,
): Image {
  const files = programs.map(({ name, binary }) => ({
    ...{ path: `${FOLDER}/bin/${name}`, mode: 0o755 },
    content: readFileSync(binary),
  }));
  return buildImage({ base, files, ...how });
}

type Bundled<Name extends string> = Readonly<Record<Name, { path: string; packages: string[] }>>;

/** The products that have images; `bundled` gives the path of a bundle and the packages in it. */
export function products(
  bundled: Bundled<'skerry' | 'skerry-templates' | 'skerry-agent'>,
  nodeFlags: readonly string[],
): Product[] {
  const controller = [bundled.skerry, bundled['skerry-templates']];
  const agent = [bundled['skerry-agent']];
  return [
    {
      name: 'skerry-controller',
      title: 'Skerry controller: REST, agent routes and reconcilers',
      bundles: controller.map(({ path }) => path),
      packages: controller.flatMap(({ packages }) => packages),
      settings: { user: `${NONROOT}:${NONROOT}`, ports: [51121, 51122, 51123], env: { NODE_ENV: 'production' } },
    },
    {
      name: 'skerry-agent',
      title: 'Skerry agent: runs containers on one machine as a controller asks',
      bundles: agent.map(({ path }) => path),
      packages: agent.flatMap(({ packages }) => packages),
      nodeFlags,
      // The engine's socket is root's on most machines; whoever has a group for it runs the image as another user.
      settings: { cmd: ['start'], volumes: ['/var/lib/skerry-agent'] },
    },
  ];
}

/** The image of a control plane for one machine. */
export function controlPlaneProduct(
  bundled: Bundled<'skerry-control-plane' | 'skerry' | 'skerry-templates' | 'kubectl-skerry'>,
  nodeFlags: readonly string[],
): Product {
  const bundles = (['skerry-control-plane', 'skerry', 'skerry-templates', 'kubectl-skerry'] as const).map(
    (name) => bundled[name],
  );
  return {
    name: 'skerry-control-plane',
    title: 'Skerry control plane: datastore, API server and controller for one machine',
    bundles: bundles.map(({ path }) => path),
    packages: bundles.flatMap(({ packages }) => packages),
    nodeFlags,
    controlPlane: {
      commands: { 'skerry-control-plane': 'skerry-control-plane.mjs', skerry: 'kubectl-skerry.mjs' },
    },
    settings: {
      ...{ user: `${NONROOT}:${NONROOT}`, ports: [51121], volumes: ['/var/lib/skerry'] },
      env: { NODE_ENV: 'production', KUBECONFIG: '/var/lib/skerry/keys/admin.kubeconfig' },
    },
  };
}

/** One image for several architectures. */
export const joined = (images: Readonly<Record<ImageArchitecture, ProductImage>>): Image =>
  buildIndex(Object.values(images).map(({ image }) => image));
