import { z } from 'zod';
import { CONTROLLER_CERTIFICATE } from '../api/names.ts';
import { certificateSpecSchema } from '../api/v3/certificate.ts';
import type { PemSource, TlsFiles } from '../server-tls/files.ts';
import { hostsOf, hostsProblem } from '../subjects/pki/rules/hosts.ts';
import { ConfigError, textVariable } from './values.ts';

/** The certificate that the controller serves: its environment. */

/** Text in PEM, in base64 with or without line breaks. */
const pemInBase64 = z.string().transform((text, context) => {
  const packed = text.replaceAll(/\s/g, '');
  const pem = /^[A-Za-z0-9+/_-]+={0,2}$/.test(packed) ? Buffer.from(packed, 'base64').toString('utf8') : '';
  if (pem.includes('-----BEGIN ')) return pem;
  context.addIssue('has to be text in PEM, in base64');
  return z.NEVER;
});
export const tlsEnvironment = z.object({
  TLS_PATH_CERT: textVariable('File with the certificate chain; with TLS_PATH_KEY it switches TLS on.'),
  TLS_PATH_KEY: textVariable('File with the private key.'),
  TLS_PATH_INTERMEDIATE_CERT: textVariable(
    'File with the certificates between the certificate and its authority, where the file of the certificate has none.',
  ),
  TLS_BASE64_CERT: pemInBase64
    .optional()
    .describe('The certificate chain (PEM) in base64, instead of TLS_PATH_CERT; a renewal needs a restart.'),
  TLS_BASE64_KEY: pemInBase64.optional().describe('The private key (PEM) in base64, instead of TLS_PATH_KEY.'),
  TLS_BASE64_INTERMEDIATE_CERT: pemInBase64
    .optional()
    .describe('The intermediate certificates (PEM) in base64, instead of TLS_PATH_INTERMEDIATE_CERT.'),
  TLS_PATH_CA: textVariable(
    'File with the authority of the certificate: agents get it to trust it, and it is sent with the chain.',
  ),
  SKERRY_TLS_HOSTS: certificateSpecSchema.shape.hosts
    .transform((text, context) => {
      const problem = hostsProblem(text);
      if (problem === undefined) return hostsOf(text);
      context.addIssue(problem.replace(/^hosts: /, ''));
      return z.NEVER;
    })
    .optional()
    .describe(
      `Host names and addresses, with commas between them: the controller then makes the Certificate ${CONTROLLER_CERTIFICATE} for them and the host of CONTROLLER_PUBLIC_URL, and serves it. Instead of TLS_PATH_CERT.`,
    ),
});

/** What the settings of the certificate follow from. */
type Variables = z.infer<typeof tlsEnvironment> & { CONTROLLER_PUBLIC_URL?: string | undefined };

/** Where the certificate comes from that the controller serves: files, or a Certificate for these hosts that it makes itself. */
export type TlsSettings = TlsFiles | { hosts: readonly string[] };

export function tlsOf(e: Variables): TlsSettings | undefined {
  const cert = pemOf(e, 'CERT');
  const key = pemOf(e, 'KEY');
  const intermediates = pemOf(e, 'INTERMEDIATE_CERT');
  const { TLS_PATH_CA: caFile, SKERRY_TLS_HOSTS: hosts } = e;
  if (hosts && (cert || key || intermediates || caFile))
    throw new ConfigError(
      'SKERRY_TLS_HOSTS and TLS_PATH_CERT exclude each other, as it does all TLS_* variables: the controller makes its certificate, or is given it',
    );
  if (!cert !== !key)
    throw new ConfigError(
      'TLS_PATH_CERT and TLS_PATH_KEY need each other, or TLS_BASE64_CERT and TLS_BASE64_KEY in their place',
    );
  if (intermediates && !cert)
    throw new ConfigError(
      'TLS_PATH_INTERMEDIATE_CERT and TLS_BASE64_INTERMEDIATE_CERT need TLS_PATH_CERT or TLS_BASE64_CERT',
    );
  if (hosts) return { hosts: [...new Set([...hosts, ...hostOfUrl(e.CONTROLLER_PUBLIC_URL)])] };
  if (!cert || !key) return undefined;
  return { cert, key, ...(intermediates && { intermediates }), ...(caFile && { ca: { file: caFile } }) };
}

/** Where one part of the certificate comes from. */
function pemOf(e: Variables, part: 'CERT' | 'KEY' | 'INTERMEDIATE_CERT'): PemSource | undefined {
  const [file, text] = [e[`TLS_PATH_${part}`], e[`TLS_BASE64_${part}`]];
  if (file && text) throw new ConfigError(`TLS_PATH_${part} and TLS_BASE64_${part} exclude each other`);
  if (file) return { file };
  return text ? { text, variable: `TLS_BASE64_${part}` } : undefined;
}

const hostOfUrl = (url: string | undefined): string[] =>
  url === undefined ? [] : [new URL(url).hostname.replace(/^\[|\]$/g, '')];
