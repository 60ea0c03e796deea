import { BOUNDS } from '../../../../api/bounds.ts';
import { ARTIFACT_KINDS, type ArtifactKind } from '../../../../api/v3/index.ts';
import { v3Name } from '../../../../rules/names.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import { ARTIFACTS, artifactVerdict } from '../../../content/rules/artifact/artifact.ts';
import type { VerdictInput } from './rule.ts';

/** Where the models and the knowledge of an entry appear in its container. */
export function catalogsAreValid({ application, entry }: VerdictInput): Verdict | undefined {
  if (entry.knowledge && application.spec.isSystem)
    return {
      reason: 'SystemMicroservice',
      status: 400,
      code: 'SYSTEM_MICROSERVICE_UPDATE',
      field: 'knowledge',
      message: 'knowledge: is for microservices of users; this one belongs to a system application',
    };
  for (const kind of ARTIFACT_KINDS) {
    const bindPath = entry[kind]?.bindPath;
    const wrong = bindPath === undefined ? undefined : wrongPath(bindPath);
    if (wrong)
      return {
        reason: 'BindPathInvalid',
        status: 400,
        code: `${ARTIFACTS[kind].catalogCode}_BIND_PATH_ABSOLUTE`,
        field: `${kind}.bindPath`,
        message: `${kind}.bindPath: ${JSON.stringify(bindPath)}; ${wrong}`,
      };
  }
  return undefined;
}

function wrongPath(path: string): string | undefined {
  if (/^\/+$/.test(path)) return 'must not be / of the container';
  if (/(^|\/)\.\.?(\/|$)/.test(path)) return 'must be an absolute path without . and .. as parts';
  return undefined;
}

/** The models and the knowledge that an entry binds exist and can be pulled. */
export function catalogsResolve(input: VerdictInput): Verdict | undefined {
  for (const kind of ARTIFACT_KINDS)
    for (const { name } of input.entry[kind]?.items ?? []) {
      const found = itemResolves(kind, name, input);
      if (found) return found;
    }
  return undefined;
}

/** The node of an entry has room for the models and the knowledge that the entry binds. */
export function catalogsFit({ entry, node, artifacts }: VerdictInput): Verdict | undefined {
  for (const kind of ARTIFACT_KINDS) {
    const names = (entry[kind]?.items ?? []).map(({ name }) => name);
    const left =
      node && names.length > 0
        ? artifacts[kind](node).find(({ fits, view }) => !fits && names.includes(view.name))
        : undefined;
    if (!node || !left) continue;
    const { noun, nodeFullCode, reasons } = ARTIFACTS[kind];
    return {
      reason: reasons.nodeFull,
      status: 400,
      code: nodeFullCode,
      field: `${kind}.items`,
      message: `${kind}.items: the node "${v3Name(node)}" has its ${BOUNDS.artifacts} ${kind}; the ${noun} "${left.view.name}" does not fit, bind fewer there or unlink others`,
    };
  }
  return undefined;
}

function itemResolves(kind: ArtifactKind, name: string, { lookups: { find } }: VerdictInput): Verdict | undefined {
  const { noun, code, reasons } = ARTIFACTS[kind];
  const field = `${kind}.items`;
  const artifact = find(kind, name);
  if (!artifact)
    return {
      reason: reasons.notFound,
      status: 404,
      code: `${code}_NOT_FOUND`,
      field,
      message: `${field}: no ${noun} "${name}"`,
    };
  const obstacle = artifactVerdict(kind, artifact, find);
  return (
    obstacle && {
      reason: reasons.notReady,
      status: obstacle.passes ? 409 : 400,
      code: `${code}_NOT_READY`,
      field,
      message: `${field}: the ${noun} "${name}" cannot be pulled: ${obstacle.message}`,
      ...(obstacle.passes && { passes: true }),
    }
  );
}
