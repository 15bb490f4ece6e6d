/** The ways into the gateway that guardrails tell apart (specification E5). */
export const REGIONS = ['global', 'europe', 'us'] as const

export type Region = (typeof REGIONS)[number]
