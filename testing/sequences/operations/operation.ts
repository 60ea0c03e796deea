import type { Operation } from '../draw.ts';
import type { Fleet } from '../fleet.ts';

/** The operations with one of these verbs. */
export type On<K extends Operation['do']> = Operation extends infer O
  ? O extends { do: infer D }
    ? K extends D
      ? O & { do: K }
      : never
    : never
  : never;

/** Carries out an operation at the controller and in the model. */
export type Perform<K extends Operation['do']> = (fleet: Fleet, operation: On<K>) => Promise<void>;
