import { join } from 'node:path';
import { type Child, startChild } from '../child.ts';
import type { Calls } from './calls.ts';

/** Many agents in a process of their own. */
export type Simulation = Child<Calls>;

export const startSimulation = (): Simulation =>
  startChild<Calls>(join(import.meta.dirname, 'host.ts'), 'the simulated nodes');
