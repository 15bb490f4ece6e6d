import { expect, test } from 'bun:test'
import { buildAuditEntry } from '../../support/audit.ts'
import {
  buildBudget,
  countAudit,
  type GetStore,
  LARGEST,
  LATER,
  readErrorType,
  readRefusal,
  sortByField,
  WORKSPACE,
} from './rows.ts'

/** Tests what every store promises about budgets. */
export function testBudgets(store: GetStore): void {
  test('a budget is read as last set, including what counts against it', async () => {
    const { budgets, workspaces } = store()
    const isCounted = async () => (await workspaces.all())[0]?.include_byok_in_budgets
    await budgets.upsert(buildBudget('lifetime', LARGEST), true, buildAuditEntry())
    await budgets.upsert(buildBudget('daily', 5n), undefined, buildAuditEntry())
    expect(await isCounted()).toBe(true)
    const changed = { ...buildBudget('daily', 4n), created_at: 'another time', updated_at: LATER }
    await budgets.upsert(changed, false, buildAuditEntry())
    expect(await isCounted()).toBe(false)
    expect(sortByField(await budgets.all(), 'id')).toEqual([
      { ...buildBudget('daily', 4n), updated_at: LATER },
      buildBudget('lifetime', LARGEST),
    ])
    await budgets.remove('budget daily', buildAuditEntry())
    await budgets.remove('budget daily', buildAuditEntry())
    expect(await budgets.all()).toEqual([buildBudget('lifetime', LARGEST)])
  })

  test('a soft budget may be of any amount, until it is none any more', async () => {
    const { budgets } = store()
    await budgets.upsert(buildBudget('monthly', 10n), undefined, buildAuditEntry())
    const soft = { ...buildBudget('daily', 20n), soft: true }
    await budgets.upsert(soft, undefined, buildAuditEntry())
    expect(await budgets.all()).toContainEqual(soft)
    const hard = budgets.upsert({ ...soft, soft: false }, undefined, buildAuditEntry())
    expect(await readErrorType(hard)).toBe('invalid_request')
    await budgets.upsert(buildBudget('daily', 5n), undefined, buildAuditEntry())
    expect(await budgets.all()).toContainEqual(buildBudget('daily', 5n))
  })

  test('budgets decrease as their windows narrow; one that breaks this is refused', async () => {
    const { budgets } = store()
    await budgets.upsert(buildBudget('monthly', 10n), undefined, buildAuditEntry())
    const entries = await countAudit(store())
    for (const wrong of [buildBudget('daily', 10n), buildBudget('lifetime', 9n)])
      expect(await readErrorType(budgets.upsert(wrong, true, buildAuditEntry()))).toBe(
        'invalid_request',
      )
    const second = { ...buildBudget('monthly', 11n), id: 'second' }
    expect(await readErrorType(budgets.upsert(second, true, buildAuditEntry()))).toBe('conflict')
    const nowhere = { ...buildBudget('daily', 1n), workspace_id: 'none' }
    expect(await readRefusal(budgets.upsert(nowhere, true, buildAuditEntry()))).toBe(
      '404 Workspace not found',
    )
    expect([await budgets.all(), await countAudit(store())]).toEqual([
      [buildBudget('monthly', 10n)],
      entries,
    ])
    const [{ include_byok_in_budgets } = {}] = await store().workspaces.all()
    expect([include_byok_in_budgets, WORKSPACE]).toEqual([false, WORKSPACE])
  })
}
