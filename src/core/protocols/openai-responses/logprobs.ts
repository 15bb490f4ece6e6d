import { type Json, objects } from '../../kernel/json.ts'
import type { Logprobs } from '../../language/part.ts'

/** The logprobs of a piece of text: here a bare list, and in the chat API an entry has `bytes`, if only as null. */
export function logprobsOf(given: unknown): Logprobs | undefined {
  const entries = objects(given)
  if (entries.length === 0) return undefined
  return { content: entries.map(entry => ({ ...withBytes(entry), top_logprobs: objects(entry.top_logprobs).map(withBytes) })) }
}

const withBytes = (entry: Json): Json => ({ ...entry, bytes: entry.bytes ?? null })
