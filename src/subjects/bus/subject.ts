import { hubRoutes } from './routes/hub.ts';

/** The message bus: who may connect to it, and by what servers. */
export const bus = { furtherRoutes: hubRoutes };
