import { encodeQR } from 'qr';

const SVG = 'http://www.w3.org/2000/svg';
/** Light modules around the code, without which cameras do not find it. */
const BORDER = 4;

/** A text as a QR code. */
export function drawCode(text: string): SVGElement {
  const rows = encodeQR(text, 'raw', { border: BORDER });
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', `0 0 ${rows.length} ${rows.length}`);
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', 'QR code of the secret');
  svg.setAttribute('shape-rendering', 'crispEdges');
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute(
    'd',
    rows.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : ''))).join(''),
  );
  svg.append(path);
  return svg;
}
