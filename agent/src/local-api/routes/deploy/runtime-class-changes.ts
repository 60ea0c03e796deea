import { z } from 'zod';
import type { LocalRuntimeClasses, RuntimeClassItem } from '../../../local/runtime-classes.ts';
import { LocalApiError } from '../../server/errors.ts';
import { operationReply } from '../../server/fields.ts';
import type { LocalOperation, Operations } from '../../server/operations.ts';

/** How far a change of a runtime class is. */
const STAGES = ['write_config', 'done'] as const;

/** What a change of a runtime class says of itself besides what every operation says. */
export interface RuntimeClassMembers {
  kind: 'RuntimeClass' | 'RuntimeClassDelete';
  name: string;
  stage: (typeof STAGES)[number];
  runtimeClass?: RuntimeClassPicture;
}

/** A runtime class as the routes show it. */
export interface RuntimeClassPicture extends RuntimeClassItem {
  runtimeName: string;
}

export interface RuntimeClassAgent {
  readonly runtimeClasses: Pick<LocalRuntimeClasses, 'all' | 'get' | 'judge' | 'apply' | 'judgeRemoval' | 'remove'>;
  readonly runtimeClassApplies: Operations<RuntimeClassMembers>;
  readonly runtimeClassDeletes: Operations<RuntimeClassMembers>;
}

/** A request that does not ask for an operation waits so long for the end of its work, ms. */
const PATIENCE = 8000;

export const pictureOf = (item: RuntimeClassItem): RuntimeClassPicture => ({ ...item, runtimeName: item.name });

/**
 * Carries out a change: answers at its end, or, for `async` and after some seconds, while it goes on. A change that has failed by then is
 * the error of the request.
 */
export async function changed(
  operations: Operations<RuntimeClassMembers>,
  { kind, name }: Pick<RuntimeClassMembers, 'kind' | 'name'>,
  act: () => Pick<RuntimeClassMembers, 'runtimeClass'>,
  { async, signal }: { async: boolean; signal: AbortSignal },
): Promise<LocalOperation<RuntimeClassMembers>> {
  const begun = operations.begin({ kind, name, stage: 'write_config' }, async () => ({
    ...act(),
    stage: 'done',
  }));
  if (async) return begun;
  const operation = await operations.ended(begun.operationId, PATIENCE, signal);
  const { error } = operation;
  if (error) throw new LocalApiError(error.code, error.message, { ...error.details, operationId: begun.operationId });
  return operation;
}

export const runtimeClassReply = () =>
  z.object({
    ...{ name: z.string(), handler: z.string() },
    source: z.enum(['local', 'managed']),
    runtimeName: z.string().describe('by which microservices ask for it: its name'),
    createdAt: z.int().optional().describe('Unix s'),
    updatedAt: z.int().optional().describe('Unix s'),
  });

export const runtimeClassChangeReply = () =>
  operationReply().extend({
    kind: z.enum(['RuntimeClass', 'RuntimeClassDelete']),
    name: z.string(),
    stage: z.enum(STAGES),
    runtimeClass: runtimeClassReply().optional(),
  });
