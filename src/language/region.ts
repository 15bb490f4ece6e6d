/** The regions of incoming hostnames that guardrails distinguish (specification E5). */
export const REGIONS = ['global', 'europe', 'us'] as const
export type Region = (typeof REGIONS)[number]
