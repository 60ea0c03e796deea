import type { RestErrorCode } from '../../../../api/error-codes.ts';
import { isEmpty } from '../../../../rules/body-values.ts';
import type { Violation } from '../../../../rules/validate.ts';
import { ARTIFACTS, isArtifactKind } from '../../../content/rules/artifact/artifact.ts';

type Catalog = { readonly bindPath?: unknown; readonly items?: unknown };

/** The code of a violation in `models` or `knowledge` of an entry; undefined for one elsewhere. */
export function catalogCode(
  { path, message }: Violation,
  entry: Readonly<Record<string, unknown>>,
): RestErrorCode<400> | undefined {
  const [kind, member] = path;
  if (typeof kind !== 'string' || !isArtifactKind(kind)) return undefined;
  const { bindPath, items } = (entry[kind] ?? {}) as Catalog;
  const rule =
    member === 'permissions'
      ? 'PERMISSIONS'
      : member === 'items'
        ? message.startsWith('duplicate')
          ? 'DUPLICATE_ITEM'
          : 'ITEM_NAME'
        : isEmpty(bindPath)
          ? 'BIND_PATH_REQUIRED'
          : isEmpty(items)
            ? 'BIND_PATH_REQUIRES_ITEMS'
            : 'BIND_PATH_ABSOLUTE';
  return `${ARTIFACTS[kind].catalogCode}_${rule}`;
}
