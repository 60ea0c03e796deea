import type { Step } from '../../domain/step.ts';

/** What is about to be done. */
export const STEP_MESSAGES = {
  network: 'Making the network',
  image: 'Looking up the image',
  create: 'Making the container',
  start: 'Starting the container',
  stop: 'Stopping the container',
  resume: 'Letting the container go on',
  rename: 'Renaming the container',
  remove: 'Removing the container',
} as const satisfies Record<Step['kind'], string>;

/** A step for the log. */
export function describeStep(step: Step): Record<string, unknown> {
  switch (step.kind) {
    case 'network':
      return {};
    case 'image':
      return { image: step.reference, policy: step.policy };
    case 'create':
      return { name: step.name, image: step.view.imageId, revision: step.view.revision, reasonCode: step.reason };
    case 'rename':
      return { containerId: step.containerId.slice(0, 12), name: step.name };
    default:
      return { containerId: step.containerId.slice(0, 12), reasonCode: step.reason };
  }
}
