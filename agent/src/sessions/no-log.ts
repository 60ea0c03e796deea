import type { MicroserviceStatus } from '../../../src/wire/agent.ts';

/** What the agent reports of a microservice, as far as it says why there is no log. */
export type ReportedState = Pick<MicroserviceStatus, 'status' | 'reason' | 'errorMessage'>;

/** Why a microservice without a container has no log, and when it will have one: with the error of its start, where there is one. */
export function noLog(reported: ReportedState | undefined): string {
  if (!reported) return `${NO_CONTAINER}; ${LATER}`;
  const { status, reason, errorMessage } = reported;
  const state = reason ? `${status} (${reason})` : status;
  if (errorMessage) return `the microservice has not started, so there is no log: ${state}: ${errorMessage}`;
  return `${NO_CONTAINER}: its state is ${state}; ${LATER}`;
}

const NO_CONTAINER = 'the microservice has no container on this node, so there is no log';
const LATER = 'a log that is followed begins when it starts';
