import { type AgreementCase, accepts, refuses } from '../_agreement.ts';

const subject = 'shop';
const hosts = 'shop.example,10.0.0.5';

export const cases: AgreementCase[] = [
  accepts('a certificate that signs itself', { subject, hosts }),
  accepts('a subject in Unicode', { subject: 'Wärmepumpe 7 / 暖', hosts }),
  accepts('spaces between hosts', { subject, hosts: 'shop.example, *.shop.example, 2001:db8::5' }),
  accepts('every field', {
    uuid: '7f6ad8d0-2f5b-4b6e-9f8a-1c2d3e4f5a6d',
    subject,
    hosts,
    expiration: 12,
    keyAlgorithm: 'RSA',
    ca: { type: 'direct', secretName: 'site-ca' },
  }),
  refuses('no subject', { hosts }),
  refuses('no hosts', { subject }),
  refuses('empty hosts', { subject, hosts: '' }),
  refuses('hosts in a list', { subject, hosts: ['shop.example'] }),
  refuses('a URL as a host', { subject, hosts: 'https://shop.example' }),
  refuses('a host in Unicode', { subject, hosts: 'wärme.example' }),
  refuses('10,000 hosts', { subject, hosts: Array.from({ length: 10_000 }, (_, i) => `host-${i}.example`).join(',') }),
  refuses('an authority without a name', { subject, hosts, ca: { type: 'direct' } }),
  refuses('an authority of what signs itself', { subject, hosts, ca: { type: 'self-signed', secretName: 'site-ca' } }),
  refuses('an authority without a type', { subject, hosts, ca: { secretName: 'site-ca' } }),
  refuses('a key in the spec', { subject, hosts, ca: { type: 'direct', secretName: 'site-ca', key: 'x' } }),
  refuses('no life', { subject, hosts, expiration: 0 }),
  refuses('an unknown field', { subject, hosts, dnsNames: [] }),
];
