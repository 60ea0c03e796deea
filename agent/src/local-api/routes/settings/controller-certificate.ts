import { saving } from '../../../domain/agent-error.ts';
import { certificateBlocks, certificateProblem, MOST_CERTIFICATES } from '../../../domain/certificates.ts';
import type { Config } from '../../../domain/config.ts';
import { linkTarget, readText, writeDurably } from '../../../machine/disk.ts';
import { LocalApiError } from '../../server/errors.ts';
import type { ChangedSettings } from './change-settings.ts';

export interface InstalledCertificate {
  path: string;
  warning?: string;
}

interface CertificateDependencies {
  config: Pick<Config, 'controllerCert'>;
  changeSettings(set: Record<string, unknown>): ChangedSettings | Promise<ChangedSettings>;
}

/**
 * Writes the authorities of the controller's certificate, base64 of PEM, to the file that controllerCert names, and switches
 * secureMode on. Throws INVALID_ARGUMENT, and writes nothing, for any other text and where controllerCert names no file.
 */
export async function installCertificate(
  text: string,
  { config: { controllerCert: path }, changeSettings }: CertificateDependencies,
): Promise<InstalledCertificate> {
  const refuse = (message: string): never => {
    throw new LocalApiError('INVALID_ARGUMENT', message, { field: 'certificate' });
  };
  const compact = text.replaceAll(/\s/g, '');
  if (compact.length === 0 || compact.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(compact))
    refuse('certificate is not base64 (of certificates in PEM)');
  const pem = Buffer.from(compact, 'base64').toString('latin1');
  const problem = certificateProblem(pem);
  if (problem !== undefined) refuse(`certificate ${problem}`);
  const blocks = certificateBlocks(pem);
  if (blocks.length > MOST_CERTIFICATES)
    refuse(
      `certificate has ${blocks.length} certificates; at most ${MOST_CERTIFICATES} are authorities of a controller`,
    );
  if (path === undefined)
    throw new LocalApiError(
      'INVALID_ARGUMENT',
      'controllerCert names no file to write to; write it into the file of settings, such as controllerCert: cert.crt',
      { field: 'controllerCert' },
    );
  checkPlace(path);
  saving('no certificate was installed', () => writeDurably(path, blocks.map((block) => `${block}\n`).join(''), 0o600));
  // Also where it is on already: the agent takes the file.
  const { errorMap, warning } = await changeSettings({ secureMode: 'on' });
  const failure = Object.values(errorMap)[0];
  if (failure !== undefined) throw new LocalApiError('INTERNAL', `secureMode: ${failure}`);
  return { path, ...(warning && { warning }) };
}

/** The file belongs to this route: another file, such as the authorities of the whole system, is never replaced. */
function checkPlace(path: string): void {
  const refuse = (why: string): never => {
    throw new LocalApiError('CONFLICT', `${path} is not replaced: ${why}. Name another file as controllerCert`, {
      field: 'controllerCert',
    });
  };
  if (linkTarget(path) !== undefined) refuse('it is a link');
  const former = readText(path);
  if (former === undefined || former.trim() === '') return;
  const count = certificateBlocks(former).length;
  if (count === 0) refuse('it holds something else than certificates');
  if (count > MOST_CERTIFICATES) refuse(`it holds ${count} certificates, as the authorities of a whole system do`);
}
