/** How the models were found that a call was sent to (wire reference K.4). */
export type Strategy = 'direct' | 'auto' | 'free' | 'latest' | 'alias' | 'fallback'

/** Something that was done with a call besides sending it: one of `pipeline` (wire reference K.6). */
export interface Stage {
  type: 'guardrail' | 'plugin' | 'server_tools' | 'response_healing' | 'context_compression'
  name: string
  summary?: string
  guardrail_id?: string
  guardrail_scope?: string
  data?: Record<string, unknown>
}
