import type { Application, EdgeNode, MicroserviceEntry } from '../../api/v3/index.ts';
import type { NodeInputs, Verdict, World } from '../inputs.ts';
import type { NormalEntry } from '../microservice/normal-form.ts';

/** What one policy looks at. */
export interface VerdictInput {
  application: Application;
  entry: NormalEntry;
  uuid: string;
  /** the node that the entry names, once found */
  node?: EdgeNode;
  world: World;
  /** a user is about to write this: every other claim of a port counts, not only the holder's */
  writing?: boolean;
}

/** One rule: a verdict, or nothing to say. */
export type Policy = (input: VerdictInput) => Verdict | undefined;

/** The policies in the order in which they are asked; the first verdict counts. */
export const POLICIES: readonly Policy[] = [];

/** Why an entry may not run as asked; undefined when it may. */
export function verdict(
  _application: Application,
  _entry: MicroserviceEntry,
  _world: World,
  _options?: { writing?: boolean },
): Verdict | undefined {
  throw new Error('not written yet');
}

/** Negative verdicts of an application, by entry name. */
export function verdicts(
  _application: Application,
  _world: World,
  _options?: { writing?: boolean },
): ReadonlyMap<string, Verdict> {
  throw new Error('not written yet');
}

/** Fields of an entry that are stored and do not act yet. */
export function notActing(_entry: MicroserviceEntry): readonly string[] {
  throw new Error('not written yet');
}

/** The node that an entry names, when it exists. */
export function nodeOf(_entry: Pick<MicroserviceEntry, 'agent'>, _world: World): EdgeNode | undefined {
  throw new Error('not written yet');
}

/** The world as it concerns the entries of one node. */
export function worldOf(_inputs: NodeInputs): World {
  throw new Error('not written yet');
}

/** The world as it would be with this application in the place of its stored form: for judging a write before it is made. */
export function worldWith(_world: World, _application: Application): World {
  throw new Error('not written yet');
}
