import type { Found } from './facts.ts'
import { RELEASED } from './released.data.ts'

/**
 * When models were released, from all that is told of it. Many sources tell the day on which a provider began to serve a model, or the day of one
 * of its snapshots, so they are heard in this order: the slug itself, the table that is written by hand, the day that most lists have, the first
 * day in any provider's name for it.
 */
export class ReleaseDays {
  readonly #today: string
  readonly #told = new Map<string, string[]>()
  readonly #named = new Map<string, string[]>()

  constructor(today: string) {
    this.#today = today
  }

  /** A list tells this day of the model. What is no day, or not yet, is not heard. */
  tell(slug: string, day: string): void {
    if (this.#isDay(day))
      this.#told.set(baseOf(slug), [...(this.#told.get(baseOf(slug)) ?? []), day])
  }

  /** The days that a provider's names for the model tell. */
  takeNames(slug: string, { id, priced }: Pick<Found, 'id' | 'priced'>): void {
    const days = [id, ...namesIn(priced?.match)].flatMap(daysIn).filter(day => this.#isDay(day))
    this.#named.set(baseOf(slug), [...(this.#named.get(baseOf(slug)) ?? []), ...days])
  }

  // No model that is served is older than these services.
  #isDay = (day: string) =>
    /^\d{4}-\d\d-\d\d$/.test(day) &&
    !Number.isNaN(Date.parse(day)) &&
    day > '2020' &&
    day <= this.#today

  /** The day of its release, ISO 8601. Undefined where nobody tells it. */
  of(slug: string): string | undefined {
    const base = baseOf(slug)
    return (
      daysIn(base)[0] ??
      RELEASED[base] ??
      mostTold(this.#told.get(base) ?? []) ??
      this.#named.get(base)?.toSorted()[0]
    )
  }
}

// What costs nothing is the same model.
const baseOf = (slug: string) => slug.replace(/:free$/, '')

// `gpt-5.4-2026-03-05`, `claude-haiku-4-5-20251001`
function daysIn(name: string): string[] {
  const date = /(?<!\d)(20[12]\d)-?([01]\d)-?([0-3]\d)(?!\d)/.exec(name)
  const day = date ? `${date[1]}-${date[2]}-${date[3]}` : ''
  return Number.isNaN(Date.parse(day)) ? [] : [day]
}

// Every text in the rule that says which names are the model's.
function namesIn(match: unknown): string[] {
  if (typeof match === 'string') return [match]
  return typeof match === 'object' && match !== null ? Object.values(match).flatMap(namesIn) : []
}

// Of days that as many tell, the first.
function mostTold(days: string[]): string | undefined {
  const times = Map.groupBy(days.toSorted(), day => day)
  return [...times].sort(([, a], [, b]) => b.length - a.length)[0]?.[0]
}
