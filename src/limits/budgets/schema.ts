import { type Static, Type } from '@sinclair/typebox'
import { MAX_USD } from '../../base/money.ts'

/** The body of `PUT /workspaces/{id}/budgets/{interval}`. */
export const BudgetInput = Type.Object({
  limit_usd: Type.Number({ exclusiveMinimum: 0, maximum: MAX_USD }),
  /** Refuses nothing: alerts tell that it is near. */
  soft: Type.Optional(Type.Boolean()),
  include_byok_in_budgets: Type.Optional(Type.Boolean()),
})
export type BudgetInput = Static<typeof BudgetInput>
