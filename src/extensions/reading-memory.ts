import { type LargeAnswer, SMALL_BODY } from '../engine/traffic/admission.ts'
import type { ExtensionWorld } from './world.ts'

/** Waits for memory for so many bytes more of what is read for a call. */
export type GrowReading = (more: number) => Promise<void>

/**
 * Returns what waits for memory for what is read for a call, whose body only names it: files that are
 * stored here, media at URLs. It takes as much as what a large body brings. `begin` begins to count it.
 */
export function openReading(
  { traffic: { admission } }: ExtensionWorld,
  begin: () => LargeAnswer,
): GrowReading {
  let reading: LargeAnswer | null = null
  let bytes = 0
  return more => {
    bytes += more
    if (bytes <= SMALL_BODY) return Promise.resolve()
    reading ??= begin()
    return admission.growAnswer(reading, bytes)
  }
}
