import type { RestErrorCode } from '../../../../api/error-codes.ts';
import { ARTIFACT_KINDS } from '../../../../api/v3/index.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import { ARTIFACTS } from '../../../content/rules/artifact/artifact.ts';
import type { VerdictInput } from './rule.ts';

/** A path in the container at which something appears. */
interface Place {
  path: string;
  /** of the verdict when another place has the same path */
  code: RestErrorCode<400>;
  field: string;
}

/** The CRD checks each list; this rule compares the lists. */
export function mountsAreApart({ entry }: VerdictInput): Verdict | undefined {
  const { volumes = [], tmpfs = [] } = entry.container;
  const seen = new Set<string>();
  const ofContainer = { code: 'VOLUME_MAPPING_ALREADY_EXISTS', field: 'container.volumes' } as const;
  for (const { path, code, field } of [
    ...volumes.map(({ containerDestination }) => ({ path: containerDestination, ...ofContainer })),
    ...tmpfs.map(({ containerPath }) => ({ path: containerPath, ...ofContainer })),
    ...catalogPlaces(entry),
  ]) {
    const plain = withoutSlash(path);
    if (seen.has(plain))
      return {
        reason: 'PathCollision',
        status: 400,
        code,
        field,
        message: `two mounts have the path ${plain} in the container`,
      };
    seen.add(plain);
  }
  return undefined;
}

/** A catalog is one mount at its bindPath, with a directory for each item. */
const catalogPlaces = (entry: VerdictInput['entry']): Place[] =>
  ARTIFACT_KINDS.flatMap((kind) => {
    const { bindPath, items = [] } = entry[kind] ?? {};
    if (!bindPath) return [];
    const base = withoutSlash(bindPath);
    const place = { code: `${ARTIFACTS[kind].catalogCode}_PATH_COLLISION`, field: `${kind}.bindPath` } as const;
    return [base, ...items.map(({ name }) => `${base}/${name}`)].map((path) => ({ path, ...place }));
  });

const withoutSlash = (path: string) => path.replace(/(?<!\/)\/+$/, '') || '/';
