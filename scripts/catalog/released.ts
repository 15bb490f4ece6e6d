import type { FoundModel } from './facts.ts'
import { RELEASED } from './released.data.ts'

/**
 * Decides when models were released. Many sources give the day on which a provider began to serve a
 * model, or that of a snapshot. The order of precedence is: the slug itself, the table that is
 * entered by hand, the day that most lists have, the first day in any provider's name for it.
 */
export class ReleaseDays {
  readonly #today: string
  readonly #listed = new Map<string, string[]>()
  readonly #named = new Map<string, string[]>()

  constructor(today: string) {
    this.#today = today
  }

  /** Adds the day that a list has for the model. Ignores what is no day, or lies in the future. */
  add(slug: string, day: string): void {
    if (this.#isDay(day))
      this.#listed.set(getBaseSlug(slug), [...(this.#listed.get(getBaseSlug(slug)) ?? []), day])
  }

  /** Adds the days in a provider's names for the model. */
  addNames(slug: string, { id, priced }: Pick<FoundModel, 'id' | 'priced'>): void {
    const days = [id, ...collectNames(priced?.match)]
      .flatMap(parseDays)
      .filter(day => this.#isDay(day))
    this.#named.set(getBaseSlug(slug), [...(this.#named.get(getBaseSlug(slug)) ?? []), ...days])
  }

  // No model that is served is older than these services.
  #isDay = (day: string) =>
    /^\d{4}-\d\d-\d\d$/.test(day) &&
    !Number.isNaN(Date.parse(day)) &&
    day > '2020' &&
    day <= this.#today

  /** Returns the day of a model's release, ISO 8601. Undefined where no source has it. */
  find(slug: string): string | undefined {
    const base = getBaseSlug(slug)
    return (
      parseDays(base)[0] ??
      RELEASED[base] ??
      pickMostFrequent(this.#listed.get(base) ?? []) ??
      this.#named.get(base)?.toSorted()[0]
    )
  }
}

// The free variant is the same model.
const getBaseSlug = (slug: string) => slug.replace(/:free$/, '')

// `gpt-5.4-2026-03-05`, `claude-haiku-4-5-20251001`
function parseDays(name: string): string[] {
  const date = /(?<!\d)(20[12]\d)-?([01]\d)-?([0-3]\d)(?!\d)/.exec(name)
  const day = date ? `${date[1]}-${date[2]}-${date[3]}` : ''
  return Number.isNaN(Date.parse(day)) ? [] : [day]
}

// Every text in the rule that lists the model's names.
function collectNames(match: unknown): string[] {
  if (typeof match === 'string') return [match]
  return typeof match === 'object' && match !== null
    ? Object.values(match).flatMap(collectNames)
    : []
}

// Of equally frequent days the first.
function pickMostFrequent(days: string[]): string | undefined {
  const times = Map.groupBy(days.toSorted(), day => day)
  return [...times].sort(([, a], [, b]) => b.length - a.length)[0]?.[0]
}
