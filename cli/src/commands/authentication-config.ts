import { readFileSync } from 'node:fs';
import { structured } from '../../../src/terminal/output.ts';
import type { Command } from '../context/command.ts';
import { UsageError } from '../context/errors.ts';

const API_VERSIONS = ['v1', 'v1beta1'] as const;

/** What the API server has to know of who issues tokens to people. */
interface TrustedIssuer {
  /** https:// */
  url: string;
  clientId: string;
  /** of names and groups in role bindings; may be empty */
  prefix: string;
  /** authority of the issuer, PEM; absent: an authority of the system */
  authority?: string;
  /** the users are another provider's */
  isExternal: boolean;
  apiVersion: (typeof API_VERSIONS)[number];
}

export const authenticationConfig: Command = {
  name: 'authentication-config',
  usage: 'ISSUER',
  about: 'Print the configuration by which an API server accepts the logins of Skerry',
  details: [
    'ISSUER is the public URL of the controller with /oidc at its end, or, with --external, the OpenID provider of AUTH_MODE=external. It has to be https://.',
    'The API server reads the output from the file that its flag --authentication-config names, which excludes its flags --oidc-*. Tokens to refresh, tokens of people who have to change their password, and names that begin with system: are refused.',
  ],
  examples: [
    'authentication-config https://skerry.example/oidc --ca ca.crt > authentication.yaml',
    'authentication-config https://login.example --external --client skerry',
  ],
  flags: {
    external: { about: 'the users are those of another provider (AUTH_MODE=external)' },
    client: { value: 'ID', about: 'client of the controller (OIDC_CLIENT_ID); controller without it' },
    prefix: { value: 'NAME', about: 'what names and groups begin with (roles.groups of the chart); skerry without it' },
    ca: { value: 'FILE', about: 'certificate of the authority of the issuer (PEM)' },
    'api-version': {
      value: 'VERSION',
      values: API_VERSIONS,
      about: 'v1 from Kubernetes 1.34 on, v1beta1 before; v1 without it',
    },
  },
  words: { min: 1, max: 1 },
  async run({ words: [url = ''], flags, format, raw }) {
    if (URL.parse(url)?.protocol !== 'https:')
      throw new UsageError(`the issuer is "${url}"; an API server accepts https:// only`);
    const text = (flag: string, fallback: string) => (typeof flags[flag] === 'string' ? flags[flag] : fallback);
    const authority = typeof flags.ca === 'string' ? readFileSync(flags.ca, 'utf8') : undefined;
    const configuration = configurationOf({
      url,
      clientId: text('client', 'controller'),
      prefix: text('prefix', 'skerry'),
      isExternal: flags.external === true,
      apiVersion: API_VERSIONS.find((one) => one === flags['api-version']) ?? 'v1',
      ...(authority !== undefined && { authority }),
    });
    raw(structured(configuration, format === 'json' ? 'json' : 'yaml'));
  },
};

/** The rules of the controller for the same tokens, as expressions of the API server. */
function configurationOf(trusted: TrustedIssuer): object {
  const { url, clientId, authority, isExternal, apiVersion } = trusted;
  const { claimMappings, claimValidationRules } = isExternal ? externalRules(trusted) : embeddedRules(trusted);
  return {
    apiVersion: `apiserver.config.k8s.io/${apiVersion}`,
    kind: 'AuthenticationConfiguration',
    jwt: [
      {
        issuer: { url, audiences: [clientId], ...(authority !== undefined && { certificateAuthority: authority }) },
        claimMappings,
        claimValidationRules,
        userValidationRules: [
          { expression: "!user.username.startsWith('system:')", message: 'names of the system are not for people' },
          {
            expression: "user.groups.all(group, !group.startsWith('system:'))",
            message: 'groups of the system are not for people',
          },
        ],
      },
    ],
  };
}

interface ClaimRules {
  claimMappings: object;
  claimValidationRules: readonly { expression: string; message: string }[];
}

function embeddedRules({ prefix }: TrustedIssuer): ClaimRules {
  const prefixed = prefixing(prefix);
  return {
    claimMappings: {
      username: { expression: prefixed('claims.preferred_username') },
      groups: { expression: `claims.?groups.orValue([]).map(group, ${prefixed('group')})` },
      uid: { expression: 'claims.sub' },
    },
    claimValidationRules: [
      { expression: "claims.?token_use.orValue('') == 'access'", message: 'this is no access token' },
      {
        expression: '!claims.?password_change_required.orValue(false)',
        message: 'the password has to be changed first',
      },
    ],
  };
}

/** The first claim of each list that has a name or groups counts, as for the controller. */
function externalRules({ prefix, clientId }: TrustedIssuer): ClaimRules {
  const prefixed = prefixing(prefix);
  const isName =
    "name in claims && type(claims[name]) == string && claims[name] != '' && (name != 'email' || claims.?email_verified.orValue(true) != false)";
  const names = `['preferred_username', 'username', 'email', 'sub'].filter(name, ${isName}).map(name, string(claims[name]))`;
  const places = `[claims.?resource_access[?${quoted(clientId)}].?roles.orValue([]), claims.?roles.orValue([]), claims.?groups.orValue([])]`;
  const texts = `.filter(place, type(place) == list).map(place, place.filter(group, type(group) == string && group != '').map(group, ${prefixed('string(group).lowerAscii()')}))`;
  return {
    claimMappings: {
      username: { expression: prefixed(`${names}[0]`) },
      groups: { expression: `(${places}${texts}.filter(place, size(place) > 0) + [[]])[0]` },
      uid: { expression: 'claims.sub' },
    },
    claimValidationRules: [
      { expression: "claims.?token_use.orValue('access') == 'access'", message: 'this is no access token' },
      {
        expression:
          "!(string(claims.?typ.orValue('')).lowerAscii() in ['refresh', 'offline', 'id', 'logout', 'serialized-id'])",
        message: 'this is no access token',
      },
    ],
  };
}

const quoted = (text: string) => `'${text.replaceAll(/['\\]/g, '\\$&')}'`;

const prefixing = (prefix: string) => (expression: string) =>
  prefix === '' ? expression : `${quoted(`${prefix}:`)} + ${expression}`;
