import { serviceAccountRoutes } from './routes/service-accounts.ts';

/** Identities of microservices: ServiceAccount. */
export const accounts = {
  routes: { serviceAccounts: serviceAccountRoutes },
};
