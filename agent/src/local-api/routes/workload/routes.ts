import { z } from 'zod';
import type { MicroserviceView } from '../../../../../src/wire/agent.ts';
import { jsonOr } from '../../../domain/json.ts';
import { LocalApiError } from '../../server/errors.ts';
import { routesWith } from '../../server/route.ts';
import type { ControlChannels } from './control-channels.ts';
import { acceptControlSocket } from './control-socket.ts';

/** What the routes of workloads need of the agent. */
export interface WorkloadDependencies {
  agent: { view(uuid: string): Pick<MicroserviceView, 'config'> | undefined };
  channels: ControlChannels;
}

const { route, socket } = routesWith<WorkloadDependencies>('own microservice');

/** What a workload reads of itself. */
export const WORKLOAD_ROUTES = [
  route({
    method: 'GET',
    path: '/v1/microservices/config',
    operation: 'getOwnConfig',
    summary: 'The config of the microservice that asks; parsed when it is JSON',
    access: 'workload',
    errors: [404],
    reply: {
      form: 'envelope',
      schema: () => z.object({ microserviceUuid: z.string(), config: z.unknown() }),
    },
    handler: ({ caller: { microservice }, deps: { agent } }) => {
      const { config } = ownView(agent, microservice);
      return { microserviceUuid: microservice, config: jsonOr(config, config) };
    },
  }),
  socket({
    method: 'GET',
    path: '/v1/microservices/control',
    operation: 'openControlChannel',
    summary: 'The control channel of the microservice that asks',
    access: 'workload',
    errors: [404],
    socket: 'the control channel',
    connect: ({ caller: { microservice }, deps: { agent, channels } }, take) => {
      ownView(agent, microservice);
      const accepted = acceptControlSocket(take());
      if (accepted) channels.add(microservice, accepted);
    },
  }),
];

function ownView(agent: WorkloadDependencies['agent'], uuid: string) {
  const view = agent.view(uuid);
  if (!view) throw new LocalApiError('NOT_FOUND', 'this microservice is not wanted on this node any more');
  return view;
}
