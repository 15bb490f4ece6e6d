import { GatewayError } from '../../errors.ts'
import type { OpenedRule } from '../../policy/filters/rule.ts'
import type { Filters } from '../../policy/filters.ts'
import type { Finding } from '../../telemetry/generations.ts'

/** What the content filters of a policy see and do in one call. */
export class Filtering {
  readonly filters: Filters
  /** What was found, summed up: never the words themselves. */
  readonly findings: Finding[] = []
  /** The rule of each of them. */
  readonly rules: OpenedRule[] = []

  constructor(filters: Filters) {
    this.filters = filters
  }

  /** Notes a match. */
  note(rule: OpenedRule, where: Finding['where'], count = 1): void {
    const { guardrail_id, filter, action } = rule
    const known = this.findings.find(
      one => one.guardrail_id === guardrail_id && one.filter === filter && one.where === where,
    )
    if (known) {
      known.count += count
      return
    }
    this.findings.push({ guardrail_id, filter, action, where, count })
    this.rules.push(rule)
  }
}

/** What a caller is told whose answer was blocked. */
export const answerBlocked = ({ name, blocked: message }: OpenedRule): GatewayError =>
  new GatewayError('permission_denied', message ?? `Response blocked by content filter: ${name}`)
