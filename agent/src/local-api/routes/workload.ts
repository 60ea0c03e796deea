import type { MicroserviceView } from '../../../../src/wire/agent.ts';
import type { LocalApiAgent } from '../agent.ts';
import { ApiError } from '../errors.ts';
import { ok, type Route } from '../route.ts';
import { WebSocketConnection } from '../websocket.ts';

/** What a workload reads of itself. */
export const WORKLOAD_ROUTES: Route[] = [
  {
    method: 'GET',
    path: '/v1/microservices/config',
    access: 'workload',
    handler: ({ microservice }, { agent }) =>
      ok({ microserviceUuid: microservice, config: jsonOrText(ownView(agent, microservice).config) }),
  },
  {
    method: 'GET',
    path: '/v1/microservices/control',
    access: 'workload',
    connect: ({ microservice }, { agent, channels }, take) => {
      ownView(agent, microservice);
      const { incoming, socket, head } = take();
      channels.add(microservice, new WebSocketConnection(incoming, socket, head));
    },
    handler: () => {
      throw new ApiError('INVALID_ARGUMENT', 'the control channel is a WebSocket: ask for an upgrade');
    },
  },
];

function ownView(agent: LocalApiAgent, uuid: string): MicroserviceView {
  const view = agent.view(uuid);
  if (!view) throw new ApiError('NOT_FOUND', 'this microservice is not wanted on this node any more');
  return view;
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
