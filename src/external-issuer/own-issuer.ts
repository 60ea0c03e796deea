import {
  allowInsecureRequests,
  ClientSecretBasic,
  Configuration,
  clockTolerance,
  customFetch,
  enableNonRepudiationChecks,
} from 'openid-client';
import { CLOCK_TOLERANCE, type ProviderDiscovery, providerUnavailable } from './discovery.ts';
import type { ProviderFetch } from './fetch.ts';

export interface OwnIssuerOptions {
  /** URL of the provider below the public URL, which browsers use and tokens name */
  issuer: string;
  clientId: string;
  /** Undefined until the keys have been read. */
  clientSecret: () => string | undefined;
  /** Where this process listens; the public URL may lead through what this process cannot reach. Undefined until it listens. */
  origin: () => string | undefined;
  fetch: ProviderFetch;
}

/** The provider of this controller, as the client that it is of itself: what it says of itself is known, and its keys are asked for each time. */
export function createOwnIssuer(options: OwnIssuerOptions): Pick<ProviderDiscovery, 'configuration'> {
  const { issuer, clientId, clientSecret, origin, fetch } = options;
  const { pathname } = new URL(issuer);
  return {
    async configuration() {
      const [secret, here] = [clientSecret(), origin()];
      if (secret === undefined || here === undefined) throw providerUnavailable('its keys have not been read yet');
      const configuration = new Configuration(
        {
          issuer,
          authorization_endpoint: `${issuer}/auth`,
          token_endpoint: `${issuer}/token`,
          jwks_uri: `${issuer}/jwks`,
          id_token_signing_alg_values_supported: ['RS256'],
        },
        clientId,
        { client_secret: secret, [clockTolerance]: CLOCK_TOLERANCE },
        ClientSecretBasic(secret),
      );
      configuration[customFetch] = (url, { method, headers, body, signal }) =>
        fetch.request(`${here}${pathname}${url.slice(issuer.length)}`, { method, headers, body, signal });
      enableNonRepudiationChecks(configuration);
      // No request leaves this machine.
      allowInsecureRequests(configuration);
      return configuration;
    },
  };
}
