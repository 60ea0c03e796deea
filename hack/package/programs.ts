import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildFromSource, toolVersion } from '../binaries.ts';
import { goBuild } from '../go.ts';
import { ROOT } from '../paths.ts';
import type { Log } from '../progress.ts';
import type { Part } from './contents.ts';
import type { ControlPlaneProgram } from './images.ts';
import { cached } from './parts.ts';
import { GO_TOOLCHAIN, type ImageArchitecture } from './pinned.ts';

/** The programs of others in the image of the control plane, and the Go modules that have them. */
export const CONTROL_PLANE_PROGRAMS = {
  etcd: 'go.etcd.io/etcd/server/v3',
  etcdutl: 'go.etcd.io/etcd/etcdutl/v3',
  'kube-apiserver': 'k8s.io/kubernetes',
  'kube-controller-manager': 'k8s.io/kubernetes',
} as const;
type ProgramName = keyof typeof CONTROL_PLANE_PROGRAMS;

const NAMES = Object.keys(CONTROL_PLANE_PROGRAMS) as ProgramName[];

/** Builds the programs from their pinned modules, once for each architecture and version; the same everywhere. */
export async function controlPlanePrograms(architecture: ImageArchitecture, log: Log): Promise<ControlPlaneProgram[]> {
  const made: ControlPlaneProgram[] = [];
  for (const name of NAMES) {
    const version = versionOf(name);
    const folder = await cached(`${name}-${version}-${GO_TOOLCHAIN}-${architecture}`, async (draft) => {
      const how = { output: join(draft, name), arch: architecture, toolchain: GO_TOOLCHAIN, log };
      if (name !== 'etcdutl') await buildFromSource(name, how);
      else await goBuild({ name, module: ETCD_CLIENT, package: CONTROL_PLANE_PROGRAMS[name], ...how });
    });
    made.push({ name, binary: join(folder, name), part: programPart(name) });
  }
  return made;
}

const ETCD_CLIENT = join(ROOT, 'hack/tools/etcd-client');

/** etcdutl has the version of etcd. */
const versionOf = (name: ProgramName): string => toolVersion(name === 'etcdutl' ? 'etcd' : name);

/** Both projects are under the licence of this one, whose text is here. */
export function programPart(name: ProgramName): Part {
  const version = versionOf(name);
  const text = readFileSync(join(ROOT, 'LICENSE'), 'utf8').trim();
  return {
    name,
    version,
    license: 'Apache-2.0',
    purl: `pkg:golang/${CONTROL_PLANE_PROGRAMS[name]}@v${version}#${name}`,
    text,
  };
}
