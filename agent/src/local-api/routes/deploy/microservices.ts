import { z } from 'zod';
import { operationReply } from '../../server/fields.ts';
import { routesWith } from '../../server/route.ts';
import { type RemovingAgent, removeMicroservice } from '../microservices/remove.ts';
import { applyMicroservice, artifactsBefore, type DeployingAgent, judgedManifest } from './deploy-microservice.ts';
import { APPLY_STAGES } from './follow.ts';
import { validity, validityReply } from './judged.ts';
import { deployedItem, deployedReply, findRow, isDeployed, type RowAgent } from './microservice-rows.ts';

/** What deploying microservices needs of the agent. */
export interface DeployDependencies {
  agent: DeployingAgent & RowAgent & RemovingAgent;
}

const { route, upload } = routesWith<DeployDependencies>('deploy');

/** Microservices that are deployed on this machine, without a controller. */
export const DEPLOY_MICROSERVICE_ROUTES = [
  upload({
    method: 'POST',
    path: '/v1/deploy/microservices:apply',
    operation: 'applyMicroservice',
    summary: 'Deploys a microservice by its manifest, or changes the one of this name; it is durable with the answer',
    access: 'admin',
    errors: [409, 503],
    reply: {
      form: 'envelope',
      schema: () => z.union([applyReply(), validReply()]),
      status: { other: 202, when: (data) => 'operationId' in data },
    },
    handler: async ({ body, deps: { agent } }) => {
      const microservice = await judgedManifest(body.manifest, agent);
      if (body.dryRun) return { ...judged(microservice, agent), dryRun: true as const };
      return applyMicroservice(microservice, body, agent);
    },
  }),
  route({
    method: 'GET',
    path: '/v1/deploy/microservices:apply/{operationId}',
    operation: 'getMicroserviceApply',
    summary: 'How far the deployment of a microservice is',
    access: 'admin',
    errors: [404],
    reply: { form: 'envelope', schema: applyReply },
    handler: ({ params: { operationId }, deps: { agent } }) => agent.microserviceApplies.get(operationId),
  }),
  upload({
    method: 'POST',
    path: '/v1/deploy/microservices:validate',
    operation: 'validateMicroservice',
    summary: 'Judges the manifest of a microservice',
    access: 'admin',
    reply: { form: 'envelope', schema: validReply },
    handler: async ({ body, deps: { agent } }) => judged(await judgedManifest(body.manifest, agent), agent),
  }),
  route({
    method: 'GET',
    path: '/v1/deploy/microservices',
    operation: 'listDeployedMicroservices',
    summary: 'The microservices that were deployed on this machine, or left to it by a controller',
    access: 'admin',
    reply: { form: 'envelope', schema: () => z.object({ items: z.array(deployedReply()) }) },
    handler: async ({ deps: { agent } }) => {
      const rows = [...agent.own.rows.values()].filter(isDeployed).sort((a, b) => (a.name < b.name ? -1 : 1));
      return { items: await Promise.all(rows.map((row) => deployedItem(agent, row))) };
    },
  }),
  route({
    method: 'GET',
    path: '/v1/deploy/microservices/{id}',
    operation: 'getDeployedMicroservice',
    summary: 'One of them, by its uuid or its name',
    access: 'admin',
    errors: [400, 404],
    reply: { form: 'envelope', schema: deployedReply },
    handler: ({ params: { id }, deps: { agent } }) => deployedItem(agent, findRow(agent, id)),
  }),
  route({
    method: 'DELETE',
    path: '/v1/deploy/microservices/{id}',
    operation: 'removeDeployedMicroservice',
    summary: 'Removes one of them with its container; volumes stay',
    access: 'admin',
    errors: [400, 404, 503],
    reply: {
      form: 'envelope',
      schema: () => z.object({ status: z.literal('ok'), microserviceUuid: z.string(), warning: z.string().optional() }),
    },
    handler: ({ params: { id }, signal, deps: { agent } }) =>
      removeMicroservice(findRow(agent, id).uuid, agent, signal),
  }),
];

function judged(microservice: Awaited<ReturnType<typeof judgedManifest>>, agent: DeployingAgent) {
  const { name, image } = microservice;
  const waits = artifactsBefore(microservice, agent);
  return { ...validity('Microservice'), name, image, ...(waits.length > 0 && { notReady: waits }) };
}

function validReply() {
  return validityReply('Microservice').extend({
    ...{ name: z.string(), image: z.string() },
    notReady: z.array(z.string()).optional().describe('models and knowledge that it waits for'),
    dryRun: z.literal(true).optional(),
  });
}

function applyReply() {
  return operationReply().extend({
    kind: z.literal('Microservice'),
    ...{ name: z.string(), image: z.string(), stage: z.enum(APPLY_STAGES) },
    deploymentId: z.string().optional().describe('the uuid of the microservice'),
  });
}
