import type { Endpoint } from '../../catalog/models.ts'
import type { TextCall } from '../../inference/call.ts'
import { KNOWN_BETAS } from './betas.data.ts'

/** Whether this is Anthropic's own service, or stands for it. */
export const isAnthropic = ({ provider }: Endpoint): boolean =>
  provider.slug === 'anthropic' || /^https:\/\/([a-z0-9-]+\.)*anthropic\.com(\/|$)/i.test(provider.base_url)

const FILES = 'files-api-2025-04-14'
const WELL_FORMED = /^[a-z0-9][a-z0-9-]{0,63}$/

/** The features to ask for by header: the caller's, as far as this host knows them, and what the call itself has need of. */
export function betasOf(call: TextCall, endpoint: Endpoint): string[] {
  const wanted = new Set(call.betas.filter(beta => WELL_FORMED.test(beta)))
  if (call.turns.some(turn => turn.blocks.some(block => block.type === 'file' && block.file.file_id !== undefined))) wanted.add(FILES)
  return isAnthropic(endpoint) ? [...wanted] : [...wanted].filter(beta => KNOWN_BETAS.has(beta))
}
