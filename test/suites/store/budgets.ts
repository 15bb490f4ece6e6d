import { expect, test } from 'bun:test'
import { told } from '../../support/audit.ts'
import {
  budgetOf,
  countAudit,
  LARGEST,
  LATER,
  type Opened,
  refusalOf,
  sortedBy,
  typeOf,
  WORKSPACE,
} from './rows.ts'

/** Tests what every store promises about budgets. */
export function budgetCases(store: Opened): void {
  test('a budget is read as last set, including what counts against it', async () => {
    const { budgets, workspaces } = store()
    const isCounted = async () => (await workspaces.all())[0]?.include_byok_in_budgets
    await budgets.upsert(budgetOf('lifetime', LARGEST), true, told())
    await budgets.upsert(budgetOf('daily', 5n), undefined, told())
    expect(await isCounted()).toBe(true)
    const changed = { ...budgetOf('daily', 4n), created_at: 'another time', updated_at: LATER }
    await budgets.upsert(changed, false, told())
    expect(await isCounted()).toBe(false)
    expect(sortedBy(await budgets.all(), 'id')).toEqual([
      { ...budgetOf('daily', 4n), updated_at: LATER },
      budgetOf('lifetime', LARGEST),
    ])
    await budgets.remove('budget daily', told())
    await budgets.remove('budget daily', told())
    expect(await budgets.all()).toEqual([budgetOf('lifetime', LARGEST)])
  })

  test('budgets decrease as their windows narrow; one that breaks this is refused', async () => {
    const { budgets } = store()
    await budgets.upsert(budgetOf('monthly', 10n), undefined, told())
    const entries = await countAudit(store())
    for (const wrong of [budgetOf('daily', 10n), budgetOf('lifetime', 9n)])
      expect(await typeOf(budgets.upsert(wrong, true, told()))).toBe('invalid_request')
    const second = { ...budgetOf('monthly', 11n), id: 'second' }
    expect(await typeOf(budgets.upsert(second, true, told()))).toBe('conflict')
    const nowhere = { ...budgetOf('daily', 1n), workspace_id: 'none' }
    expect(await refusalOf(budgets.upsert(nowhere, true, told()))).toBe('404 Workspace not found')
    expect([await budgets.all(), await countAudit(store())]).toEqual([
      [budgetOf('monthly', 10n)],
      entries,
    ])
    const [{ include_byok_in_budgets } = {}] = await store().workspaces.all()
    expect([include_byok_in_budgets, WORKSPACE]).toEqual([false, WORKSPACE])
  })
}
