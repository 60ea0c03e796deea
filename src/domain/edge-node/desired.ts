import type { EdgeNode } from '../../api/v3/index.ts';
import type { MicroserviceView } from '../../wire/index.ts';
import type { DesiredState, NodeInputs } from '../inputs.ts';

/** What a node is to do: a pure function of the objects that concern it. */
export function desiredState(_inputs: NodeInputs): DesiredState {
  throw new Error('not written yet');
}

/**
 * The microservices as foreign agents see them, who know no hold: the last admitted view; without one, the entry with
 * the image that the node last reported; what was never admitted nor reported is absent.
 */
export function foreignView(
  _desired: Pick<DesiredState, 'microservices' | 'held'>,
  _lastAdmitted: ReadonlyMap<string, MicroserviceView>,
  _observed: EdgeNode['status'],
): MicroserviceView[] {
  throw new Error('not written yet');
}
