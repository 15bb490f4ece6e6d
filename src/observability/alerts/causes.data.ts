/** What an alert may be about, and which of its fields have a meaning then. */
interface CauseFacts {
  /** The thresholds of an alert that names none, from the least severe to the most. */
  thresholds: number[]
  /** The lowest and the highest threshold; null for a cause that either is or is not. */
  range: { above: number; most: number; unit: string } | null
  /** Whether less is worse, as of what is left. */
  isFalling?: boolean
  /** Whether it is told once in a window that the alert names. */
  hasWindow: boolean
  /** The field that narrows it. */
  scope: 'key_hash' | 'provider' | 'destination_id' | null
  /** Whether it is about the installation: only the default workspace has such alerts. */
  isInstallations?: boolean
}

/** The causes of alerts. */
export const CAUSES = {
  limit_near: {
    thresholds: [0.8, 1],
    range: { above: 0, most: 1, unit: 'shares of a limit' },
    hasWindow: false,
    scope: 'key_hash',
  },
  error_rate: {
    thresholds: [0.1],
    range: { above: 0, most: 1, unit: 'shares of calls' },
    hasWindow: true,
    scope: 'key_hash',
  },
  provider_empty: {
    thresholds: [],
    range: null,
    hasWindow: true,
    scope: 'provider',
    isInstallations: true,
  },
  destination_backlog: {
    thresholds: [10_000],
    range: { above: 0, most: 100_000_000, unit: 'counts of calls' },
    hasWindow: true,
    scope: 'destination_id',
  },
  credential_ending: {
    thresholds: [7, 1],
    range: { above: 0, most: 365, unit: 'days' },
    isFalling: true,
    hasWindow: false,
    scope: 'key_hash',
  },
  credits_low: {
    thresholds: [10],
    range: { above: 0, most: 1_000_000, unit: 'amounts in USD' },
    isFalling: true,
    hasWindow: true,
    scope: null,
    isInstallations: true,
  },
} as const satisfies Record<string, CauseFacts>

export type AlertCause = keyof typeof CAUSES

export const ALERT_CAUSES = Object.keys(CAUSES) as AlertCause[]

/** Returns what is known of a cause. */
export const describeCause = (cause: AlertCause): CauseFacts => CAUSES[cause]
