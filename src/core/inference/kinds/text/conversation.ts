import type { TextCall } from '../../../language/call.ts'
import type { Turn } from '../../../language/message.ts'

/**
 * What tells this conversation from others and stays the same as it goes on: the cache key that the caller gives it, or the texts of its
 * first instructions and of what is said first (wire reference K.3).
 */
export function conversation({ params: { prompt_cache_key }, turns }: TextCall): string {
  if (prompt_cache_key !== undefined) return `key ${Bun.hash(prompt_cache_key)}`
  const opening = [turns.find(isInstruction), turns.find(turn => !isInstruction(turn))]
  return `opening ${opening.reduce<number | bigint>(hashOn, 0n)}`
}

const isInstruction = ({ role }: Turn) => role === 'system' || role === 'developer'

const hashOn = (hash: number | bigint, turn: Turn | undefined): number | bigint =>
  (turn?.blocks ?? []).reduce((sum, block) => (block.type === 'text' ? Bun.hash(block.text, BigInt(sum)) : sum), hash)
