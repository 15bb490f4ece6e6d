import severalNodes from './002-several-nodes.sql' with { type: 'text' }
import changes from './003-changes.sql' with { type: 'text' }
import moves from './004-moves.sql' with { type: 'text' }
import { explainFaults, type Runner, readCode, run } from './connection.ts'
import type { Pool } from './pool.ts'
import schema from './schema.sql' with { type: 'text' }

/** What leads from each version of the tables to the next, from the first on. */
const STEPS = [severalNodes, changes, moves]

/** Which tables `schema.sql` makes. */
export const VERSION = 1 + STEPS.length

/** Programs that make these tables, and later ones, count each time that they move money. */
export const COUNTS_MOVES = 4

/** Makes the tables of a store, in the schema in which a connection makes what it does not name. */
export const createTables = (connection: Runner): Promise<unknown> =>
  connection.unsafe(schema) as Promise<unknown>

/**
 * Makes the tables of this version from those of an earlier one. A server of the version before goes
 * on with them: a step takes nothing away.
 */
export async function widenTables(connection: Runner, version: number): Promise<void> {
  for (const step of STEPS.slice(version - 1)) await connection.unsafe(step)
  await run(connection, 'update gate set version = ?', [VERSION])
}

/**
 * Creates the function that compares what is in the schema of a store with what this program makes:
 * every table, index, trigger, view and function must be there as it was made, and no other. What is
 * expected is made anew and taken back, as each version of Postgres describes it in its own words.
 */
export function createSchemaComparison(pool: Pool): () => Promise<string[]> {
  let expected: Description | undefined
  return async () => {
    const [{ version } = { version: VERSION }] = await explainFaults(() =>
      run<{ version: number }>(pool, 'select version from gate'),
    )
    if (version > VERSION)
      return [`they are of a newer program (${version}; this one has ${VERSION}): ask its doctor`]
    try {
      expected ??= await explainFaults(() => describeExpected(pool))
    } catch (thrown) {
      if (readCode(thrown) !== INSUFFICIENT_PRIVILEGE) throw thrown
      return ['it cannot be compared: the user may not create schemas in this database']
    }
    return compare(expected, await describe(pool))
  }
}

const INSUFFICIENT_PRIVILEGE = '42501'

/** What defines each thing, by its kind and name. */
type Description = Map<string, string>

function compare(expected: Description, found: Description): string[] {
  return [...new Set([...expected.keys(), ...found.keys()])].flatMap(name => {
    if (expected.get(name) === found.get(name)) return []
    if (!found.has(name)) return `the ${name} is missing`
    return `the ${name} was ${expected.has(name) ? 'changed' : 'added'} by another program`
  })
}

/** Is thrown to take back what was made. */
class Described extends Error {
  readonly description: Description

  constructor(description: Description) {
    super('')
    this.description = description
  }
}

async function describeExpected(pool: Pool): Promise<Description> {
  const name = `gateway_expected_${crypto.randomUUID().replaceAll('-', '')}`
  try {
    return (await pool.begin(async connection => {
      await connection.unsafe(`create schema ${name}; set local search_path to ${name}`)
      await createTables(connection)
      throw new Described(await describe(connection))
    })) as never
  } catch (thrown) {
    if (thrown instanceof Described) return thrown.description
    throw thrown
  }
}

async function describe(on: Runner): Promise<Description> {
  const rows = await run<{ name: string; definition: string }>(on, DESCRIBE)
  return new Map(rows.map(({ name, definition }) => [name, definition]))
}

// What an index, a view or a function says names its schema only where it is not the first that is
// searched. Triggers of the engine itself, which keep references, have numbers as names.
const DESCRIBE = `with own as (select current_schema()::regnamespace::oid as id),
  relations as (select c.* from pg_class c, own where c.relnamespace = own.id),
  tables as (select * from relations where relkind not in ('i', 'I', 'v', 'm', 't', 'c'))
select 'table ' || relname as name, concat_ws('; ', relkind, relpersistence, relrowsecurity,
    (select string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), attnotnull,
        attidentity, attgenerated, (select collname from pg_collation o where o.oid = attcollation),
        pg_get_expr(d.adbin, d.adrelid, true)), ', ' order by attname)
      from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
      where a.attrelid = t.oid and attnum > 0 and not attisdropped),
    (select string_agg(concat_ws(' ', conname, convalidated, pg_get_constraintdef(k.oid, true)),
        ', ' order by conname)
      from pg_constraint k where k.conrelid = t.oid and k.contype <> 'n'),
    (select string_agg(tgenabled::text, '' order by tgenabled) from pg_trigger g
      where g.tgrelid = t.oid and tgisinternal)) as definition from tables t
union all select 'index ' || relname,
    concat_ws('; ', pg_get_indexdef(r.oid, 0, true), indisvalid, indisunique)
  from relations r join pg_index i on i.indexrelid = r.oid
union all select 'view ' || relname, concat_ws('; ', relkind, pg_get_viewdef(oid, true))
  from relations where relkind in ('v', 'm')
union all select 'trigger ' || tgname || ' on ' || relname,
    concat_ws('; ', tgenabled, pg_get_triggerdef(g.oid, true))
  from pg_trigger g join relations r on r.oid = g.tgrelid where not tgisinternal
union all select 'rule ' || rulename || ' on ' || relname, pg_get_ruledef(w.oid, true)
  from pg_rewrite w join relations r on r.oid = w.ev_class where rulename <> '_RETURN'
union all select 'policy ' || polname || ' on ' || relname,
    concat_ws('; ', polcmd, pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
  from pg_policy p join relations r on r.oid = p.polrelid
union all select 'function ' || proname || '(' || pg_get_function_identity_arguments(f.oid) || ')',
    concat_ws('; ', prokind, provolatile, prosecdef, proisstrict, proconfig::text, lanname,
      pg_get_function_result(f.oid), prosrc, aggtransfn::text, aggfinalfn::text, agginitval)
  from pg_proc f cross join own join pg_language l on l.oid = prolang
  left join pg_aggregate a on a.aggfnoid = f.oid where pronamespace = own.id`
