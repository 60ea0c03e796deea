import type { AgentRoute, Exchange } from '../channel/exchange.ts';
import { AgentFailure } from '../channel/failure.ts';

/** Finds the route of a request and fills in `route` and `parameter`. Throws when there is none. */
export type Match = (exchange: Exchange) => void;

/** One look-up for a fixed path; the few routes that end in a parameter are tried after that. */
export function createMatch(routes: readonly AgentRoute[]): Match {
  const fixed = new Map<string, AgentRoute>();
  const paths = new Set<string>();
  const families: { prefix: string; method: string; route: AgentRoute }[] = [];
  for (const route of routes) {
    const brace = route.path.indexOf('{');
    if (brace >= 0) families.push({ prefix: route.path.slice(0, brace), method: route.method, route });
    else fixed.set(`${route.method} ${route.path}`, route);
    paths.add(route.path);
  }

  return (exchange) => {
    const { path } = exchange;
    const method = exchange.req.method ?? '';
    const route = fixed.get(`${method} ${path}`);
    if (route) {
      exchange.route = route;
      return;
    }
    let isKnown = paths.has(path);
    for (const family of families) {
      const parameter = path.startsWith(family.prefix) ? path.slice(family.prefix.length) : '';
      if (parameter === '' || parameter.includes('/')) continue;
      isKnown = true;
      if (family.method !== method) continue;
      exchange.route = family.route;
      exchange.parameter = parameter;
      return;
    }
    if (isKnown) throw new AgentFailure('METHOD_NOT_ALLOWED', `${path} has no ${method}`);
    throw new AgentFailure('ROUTE_NOT_FOUND', 'there is no such route');
  };
}
