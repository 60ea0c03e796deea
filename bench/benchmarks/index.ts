import type { Benchmark } from '../benchmark.ts';
import { alone } from './alone.ts';
import { apply } from './apply.ts';
import { bus } from './bus.ts';
import { certificates } from './certificates.ts';
import { change } from './change.ts';
import { controlPlane } from './control-plane.ts';
import { creation } from './creation.ts';
import { growth } from './growth.ts';
import { heartbeat } from './heartbeat.ts';
import { identity } from './identity.ts';
import { idle } from './idle.ts';
import { listing } from './listing.ts';
import { localExec } from './local-exec.ts';
import { memory } from './memory.ts';
import { nodes } from './nodes.ts';
import { platform } from './platform.ts';
import { poll } from './poll.ts';
import { provisioning } from './provisioning.ts';
import { pull } from './pull.ts';
import { reads } from './reads.ts';
import { reconnect } from './reconnect.ts';
import { replay } from './replay.ts';
import { scale } from './scale.ts';
import { secondStart } from './second-start.ts';
import { secrets } from './secrets.ts';
import { services } from './services.ts';
import { sessions } from './sessions.ts';
import { status } from './status.ts';
import { templates } from './templates.ts';

/**
 * In the order in which they run, whichever are selected: first those that need the machine for themselves, then those
 * that create the fleet that others need, last those that measure its final state or restart the controller.
 */
export const BENCHMARKS: readonly Benchmark[] = [
  secondStart,
  pull,
  templates,
  nodes,
  growth,
  reads,
  secrets,
  certificates,
  platform,
  bus,
  services,
  identity,
  provisioning,
  creation,
  replay,
  poll,
  heartbeat,
  change,
  apply,
  listing,
  idle,
  memory,
  status,
  reconnect,
  sessions,
  localExec,
  alone,
  controlPlane,
  scale,
];
