import type { ControllerDependencies } from '../../controllers/dependencies.ts';
import { createSigner } from '../../signer/signer.ts';
import { createAuthorityController } from './reconcile/authority.ts';
import { createCertificateController } from './reconcile/certificate.ts';
import { certificateAuthorityRoutes, certificateRoutes } from './routes/certificates.ts';

/** Keys and their certificates: CertificateAuthority, Certificate. */
export const pki = {
  routes: { certificateAuthorities: certificateAuthorityRoutes, certificates: certificateRoutes },
  reconcilers: (deps: ControllerDependencies) => {
    const signer = createSigner();
    return {
      ofKinds: {
        certificateAuthorities: createAuthorityController(deps, signer),
        certificates: createCertificateController(deps, signer),
      },
    };
  },
};
