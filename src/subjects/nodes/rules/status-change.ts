import { isDeepStrictEqual } from 'node:util';
import { ARTIFACT_KINDS, type EdgeNode, type EdgeNodeStatus, type ObservedArtifact } from '../../../api/v3/index.ts';
import { nodeUuid } from '../../../rules/names.ts';

/** Whether the desired state of a node may depend on what differs: the other members of a status are for people or about time. */
export const isWorkedFromAlike = (a: EdgeNode, b: EdgeNode): boolean =>
  a.metadata.generation === b.metadata.generation &&
  nodeUuid(a) === nodeUuid(b) &&
  a.status?.uuid === b.status?.uuid &&
  ARTIFACT_KINDS.every((kind) => hasAlike(a.status?.[kind], b.status?.[kind])) &&
  isDeepStrictEqual(readFrom(a.status), readFrom(b.status));

/** Whether statuses of all applications of a node may depend on what differs, which includes its silence. */
export const isSeenAlike = (a: EdgeNode, b: EdgeNode): boolean =>
  a.status?.daemonStatus === b.status?.daemonStatus && isWorkedFromAlike(a, b);

/**
 * Whether the content that nodes are sent may depend on what differs. States of microservices only say what is done of it, so that
 * one of them that starts and crashes for ever takes nothing back.
 */
export const isContentAlike = (a: EdgeNode, b: EdgeNode): boolean =>
  a.metadata.generation === b.metadata.generation &&
  nodeUuid(a) === nodeUuid(b) &&
  isDeepStrictEqual(contentFrom(a.status), contentFrom(b.status));

/** Whether a node has the same artifacts, whatever their states: what it has comes before what others ask for later. */
const hasAlike = (a: readonly ObservedArtifact[] = [], b: readonly ObservedArtifact[] = []): boolean =>
  a === b || (a.length === b.length && a.every(({ uuid }, i) => uuid === b[i]?.uuid));

function contentFrom(status: EdgeNodeStatus | undefined) {
  const { microservices: _m, warningMessage: _w, volumeMounts: _v, ...content } = readFrom(status) ?? {};
  return content;
}

function readFrom(status: EdgeNodeStatus | undefined) {
  if (!status) return undefined;
  const {
    uuid: _u,
    conditions: _c,
    lastSeenTime: _l,
    silentSince: _s,
    observedGeneration: _o,
    microserviceCount: _m,
    daemonStatus: _d,
    platformStatus: _p,
    models: _models,
    knowledge: _knowledge,
    microserviceList: _list,
    ...read
  } = status;
  return read;
}
