import { routeTable } from '../../lib/path-pattern.ts';
import type { AgentRoute, Exchange } from '../channel/exchange.ts';
import { AgentFailure } from '../channel/failure.ts';

/** Finds the route of a request and fills in `route` and `parameter`. Throws when there is none. */
export type Match = (exchange: Exchange) => void;

export function createMatch(routes: readonly AgentRoute[]): Match {
  const table = routeTable(routes.map((route) => [route.path, route] as const));
  return (exchange) => {
    const method = exchange.req.method ?? '';
    // A parameter counts as it was sent, without percent-decoding.
    const path = exchange.path.replaceAll('%', '%25');
    const found = table.find(method, path);
    if (found) {
      exchange.route = found.value;
      [exchange.parameter] = Object.values(found.parameters);
    } else if (table.methodsOf(path).length > 0)
      throw new AgentFailure('METHOD_NOT_ALLOWED', `${exchange.path} has no ${method}`);
    else throw new AgentFailure('ROUTE_NOT_FOUND', 'there is no such route');
  };
}
