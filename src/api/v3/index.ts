import type { KindDefinition } from '../meta.ts';
import { applicationKind } from './application.ts';
import { edgeNodeKind } from './edge-node.ts';
import { registryKind } from './registry.ts';

/** Every kind of ours; the CRDs, the roles and the documentation are made from this list. */
export const KINDS: readonly KindDefinition[] = [applicationKind, edgeNodeKind, registryKind];

export * from './application.ts';
export * from './edge-node.ts';
export * from './microservice.ts';
export * from './registry.ts';
