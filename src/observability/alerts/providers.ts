import type { Events } from '../../base/events.ts'
import type { AlertWorld } from './world.ts'

/** Who is told what providers say. */
interface ProviderListener {
  /** Told the slug of a provider whose account is empty. */
  onEmpty(slug: string): void
  /** Told the name of a provider that has answered. */
  onAnswer(name: string): void
}

/** Listens to what providers say of the operator's accounts. Returns what ends that. */
export const watchProviders = (
  events: Events,
  { onEmpty, onAnswer }: ProviderListener,
): (() => void)[] => [
  events.on('operator.needed', ({ endpoint, trouble }) => {
    if (trouble === 'balance') onEmpty(endpoint.provider.slug)
  }),
  // A caller's own account says nothing of ours, and a kept answer nothing of its provider.
  events.on('generation.finished', call => {
    const { provider_name, error_type, is_byok, response_cache_source_id } = call
    if (provider_name !== null && error_type === null && !is_byok && !response_cache_source_id)
      onAnswer(provider_name)
  }),
]

/** In milliseconds: a provider says the same no sooner again. A look at the causes takes a minute. */
const PAUSE = 30_000

const EMPTY = 'empty '
const ANSWERS = 'answers '

/**
 * Tells the server that has the jobs what providers say here, as long as it is another one and an
 * alert is about that. Returns what ends it.
 */
export function tellSightings({ jobs, events, memory, clock }: AlertWorld): () => void {
  const toldAt = new Map<string, number>()
  const tell = (name: string) => {
    const now = clock.ticks()
    if (!jobs || jobs.isHeld || now - (toldAt.get(name) ?? -PAUSE) < PAUSE) return
    if (memory.alerts.filter(({ cause }) => cause === 'provider_empty').length === 0) return
    toldAt.set(name, now)
    void jobs.noteSighting(name)
  }
  const stops = watchProviders(events, {
    onEmpty: slug => tell(EMPTY + slug),
    onAnswer: name => tell(ANSWERS + name),
  })
  return () => {
    for (const stop of stops) stop()
  }
}

/** Reads what another server has seen: the slug of an empty provider, or the name of one that answers. */
export const parseSighting = (sighting: string): { slug?: string; name?: string } =>
  sighting.startsWith(EMPTY)
    ? { slug: sighting.slice(EMPTY.length) }
    : { name: sighting.slice(ANSWERS.length) }
