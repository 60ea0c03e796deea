import type { Report } from './report.ts';
export function renderDocs(_report: Report): string {
  return '';
}
