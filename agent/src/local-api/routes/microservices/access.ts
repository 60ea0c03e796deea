import type { Grant } from '../../server/grants.ts';

/** Reading of a microservice. */
export const READ: Grant = { resource: 'microservices', verb: 'get' };
/** Starting, stopping and the like are POST requests. */
export const ACT: Grant = { resource: 'microservices', verb: 'create' };
