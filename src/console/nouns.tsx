/** @jsxImportSource preact */
import { useState } from 'preact/hooks'
import {
  ApiError,
  ask,
  change,
  type Described,
  describe,
  type OwnSession,
  read,
  type Schema,
} from './api.ts'
import { Form, toLabel } from './form.tsx'
import type { NounPage } from './nouns.data.ts'
import {
  type Column,
  Confirm,
  Copyable,
  Find,
  Problem,
  saveCsv,
  Table,
  useLoaded,
  Waiting,
} from './parts.tsx'
import { go, link, matchWords, type Place, setQuery } from './route.ts'
import { formatUsd, formatValue } from './text.ts'

type Thing = Record<string, unknown>

/** How many of a list are shown at once. */
const PAGE = 50

interface NounProps {
  name: string
  noun: NounPage
  place: Place
  session: OwnSession
}

/** The pages of a noun: its list, a form for a new one, and one of them. */
export function Noun(props: NounProps) {
  const [, id] = props.place.parts
  if (id === 'new') return <NewThing {...props} />
  return id === undefined ? <List {...props} /> : <OneThing {...props} id={id} />
}

const findDescribed = async (noun: NounPage, method: string, ofOne: boolean) => {
  const { paths } = await describe()
  const path = `/api/v1${noun.path}`
  const found = Object.keys(paths).find(one =>
    ofOne
      ? one.startsWith(`${path}/{`) && one.split('/').length === path.split('/').length + 1
      : one === path,
  )
  return found === undefined ? undefined : paths[found]?.[method]
}

const getBody = (described: Described | undefined): Schema | undefined =>
  described?.requestBody?.content['application/json']?.schema

const getExample = (described: Described | undefined): Thing | undefined =>
  (described?.requestBody?.content['application/json'] as { example?: Thing } | undefined)?.example

const showCell = (noun: NounPage, field: string, thing: Thing): string =>
  noun.money?.includes(field) ? formatUsd(thing[field] as number | null) : formatValue(thing[field])

/** A list as the API answers it: with its length, or with what its page is between. */
interface Listed {
  data: Thing[]
  total_count?: number
  has_more?: boolean
  first_id?: string | null
  last_id?: string | null
}

/** What an address of a list's first page does not have. */
const FIRST = { offset: undefined, after_id: undefined, before_id: undefined }

/** What the pages before and after this one are called in its address; undefined where none is. */
type Neighbours = Record<'before' | 'next', Partial<Record<string, string | number>> | undefined>

function findNeighbours(noun: NounPage, { query }: Place, listed: Listed): Neighbours {
  const { data, total_count: total, has_more = false, first_id, last_id } = listed
  if (noun.isPagedById) {
    const isReturn = query.has('before_id')
    const hasBefore = isReturn ? has_more : query.has('after_id')
    return {
      before: hasBefore ? { ...FIRST, ...(first_id ? { before_id: first_id } : {}) } : undefined,
      next: (isReturn || has_more) && last_id ? { ...FIRST, after_id: last_id } : undefined,
    }
  }
  const offset = Number(query.get('offset') ?? 0) || 0
  const size = noun.pageSize ?? PAGE
  const hasMore = total === undefined ? data.length === noun.pageSize : offset + size < total
  return {
    before: offset > 0 ? { offset: Math.max(0, offset - size) || undefined } : undefined,
    next: hasMore ? { offset: offset + size } : undefined,
  }
}

/** The way to other pages of a list, if it has any. */
function Pages({ noun, place, listed }: Pick<NounProps, 'noun' | 'place'> & { listed: Listed }) {
  const { before, next } = findNeighbours(noun, place, listed)
  if (!before && !next) return null
  const offset = Number(place.query.get('offset') ?? 0) || 0
  const total = listed.total_count
  return (
    <nav class="pages" aria-label="Pages">
      <button type="button" disabled={!before} onClick={() => setQuery(place, before ?? {})}>
        Before
      </button>
      {noun.isPagedById ? null : (
        <span>
          {offset + 1}–{offset + listed.data.length}
          {total === undefined ? '' : ` of ${total.toLocaleString('en')}`}
        </span>
      )}
      <button type="button" disabled={!next} onClick={() => setQuery(place, next ?? {})}>
        Next
      </button>
    </nav>
  )
}

function List({ name, noun, place, session }: NounProps) {
  const offset = Number(place.query.get('offset') ?? 0) || 0
  const workspace = place.query.get('workspace_id') ?? undefined
  const kept = noun.isPagedById ? ['after_id', 'before_id'] : []
  const filters = Object.fromEntries(
    [...(noun.filters ?? []), ...kept].flatMap(field => {
      const value = place.query.get(field)
      return value ? [[field, value]] : []
    }),
  )
  const query = new URLSearchParams({
    ...(noun.query ?? { offset: String(offset), limit: String(PAGE) }),
    ...(noun.pageSize ? { offset: String(offset) } : {}),
    ...(workspace ? { workspace_id: workspace } : {}),
    ...filters,
  })
  const loaded = useLoaded(
    () => ask<Listed>('GET', `${noun.path}?${query}`),
    [noun.path, query.toString()],
  )
  const creation = useLoaded(() => findDescribed(noun, 'post', false), [noun.path])
  const canCreate = getBody(creation.value) !== undefined
  const columns: Column<Thing>[] = noun.columns.map((field, i) => ({
    title: toLabel(field),
    isNumber: noun.money?.includes(field) ?? false,
    text: thing => showCell(noun, field, thing),
    show: thing =>
      i === 0 && noun.id ? (
        <a href={link([name, String(thing[noun.id])])}>{showCell(noun, field, thing)}</a>
      ) : (
        showCell(noun, field, thing)
      ),
  }))
  const matches = matchWords(place)
  const rows = loaded.value?.data
  const found = rows?.filter(thing => matches(columns.map(({ text }) => text?.(thing)).join(' ')))
  return (
    <>
      <header class="head">
        <h1>{noun.title}</h1>
        {canCreate ? (
          <a class="button primary" href={link([name, 'new'], { workspace_id: workspace })}>
            New {noun.one}
          </a>
        ) : null}
      </header>
      <p class="quiet">{noun.about}</p>
      <div class="tools">
        <Find place={place} label="Find on this page" />
        {noun.ofWorkspace ? <WorkspaceChoice place={place} session={session} /> : null}
        {(noun.filters ?? []).map(field => (
          <label key={field}>
            {toLabel(field)}{' '}
            <input
              value={place.query.get(field) ?? ''}
              onChange={event =>
                setQuery(place, { ...FIRST, [field]: event.currentTarget.value.trim() })
              }
            />
          </label>
        ))}
        {found && found.length > 0 ? (
          <button type="button" onClick={() => saveCsv(name, columns, found)}>
            Save as CSV
          </button>
        ) : null}
      </div>
      {loaded.value && found ? (
        <>
          <Table caption={noun.title} columns={columns} rows={found} />
          <Pages noun={noun} place={place} listed={loaded.value} />
        </>
      ) : (
        <Waiting {...loaded} />
      )}
    </>
  )
}

/** Which workspace a list is of: the default one, or all of a member's, unless another is chosen. */
function WorkspaceChoice({ place, session }: Pick<NounProps, 'place' | 'session'>) {
  const isMember = session.role === 'member'
  const { value } = useLoaded(
    async () =>
      isMember
        ? session.workspaces
        : (await ask<{ data: OwnSession['workspaces'] }>('GET', '/workspaces?limit=100')).data,
    [session],
  )
  if (!value || value.length < 2) return null
  return (
    <label>
      Workspace{' '}
      <select
        value={place.query.get('workspace_id') ?? ''}
        onChange={event => setQuery(place, { ...FIRST, workspace_id: event.currentTarget.value })}
      >
        <option value="">{isMember ? 'all' : 'default'}</option>
        {value.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
    </label>
  )
}

/** The schema of a form, without the fields that only others may set. */
function restrict(noun: NounPage, session: OwnSession, schema: Schema): Schema {
  const hidden = session.role === 'member' ? (noun.notOfMembers ?? []) : []
  const shown = Object.entries(schema.properties ?? {}).filter(([name]) => !hidden.includes(name))
  return { ...schema, properties: Object.fromEntries(shown) }
}

function NewThing({ name, noun, place, session }: NounProps) {
  const loaded = useLoaded(() => findDescribed(noun, 'post', false), [noun.path])
  const [secret, setSecret] = useState<string | null>(null)
  const schema = getBody(loaded.value)
  if (!loaded.value) return <Waiting {...loaded} />
  if (!schema) return <p>A {noun.one} cannot be made here.</p>
  const workspace = place.query.get('workspace_id')
  const create = async (body: Thing) => {
    const own = workspace && schema.properties?.workspace_id ? { workspace_id: workspace } : {}
    const made = await ask<{ key?: string; data?: Thing }>('POST', noun.path, { ...own, ...body })
    if (typeof made.key === 'string') setSecret(made.key)
    else {
      const id = noun.id && made.data?.[noun.id]
      go(link(id === undefined ? [name] : [name, String(id)]))
    }
  }
  return (
    <>
      <p>
        <a href={link([name])}>{noun.title}</a>
      </p>
      <h1>New {noun.one}</h1>
      {secret === null ? (
        <Form
          schema={restrict(noun, session, schema)}
          example={getExample(loaded.value)}
          action={`Make the ${noun.one}`}
          onSubmit={create}
        />
      ) : (
        <>
          <NewSecret secret={secret} />
          <p>
            <a href={link([name])}>I have it</a>
          </p>
        </>
      )}
    </>
  )
}

/** A secret that is shown once, and how it is used. */
const NewSecret = ({ secret }: { secret: string }) => (
  <div class="notice good" role="status">
    <p>
      <strong>This is shown once.</strong> Copy it now: the gateway keeps only its hash.
    </p>
    <Copyable text={secret} label="The new key" />
    <Snippets secret={secret} />
  </div>
)

/** How the new key is used. */
function Snippets({ secret }: { secret: string }) {
  const base = location.origin
  return (
    <>
      <h2>Use it</h2>
      <Copyable
        label="With curl"
        text={`curl ${base}/api/v1/chat/completions \\
  -H "Authorization: Bearer ${secret}" \\
  -d '{"model":"sandbox/echo","messages":[{"role":"user","content":"Hello"}]}'`}
      />
      <Copyable
        label="With clients of OpenAI"
        text={`export OPENAI_BASE_URL=${base}/api/v1 OPENAI_API_KEY=${secret}`}
      />
      <Copyable
        label="With Claude Code"
        text={`export ANTHROPIC_BASE_URL=${base} ANTHROPIC_AUTH_TOKEN=${secret}`}
      />
    </>
  )
}

/** A list of what belongs to one thing, read again when something was done. */
function Part({
  path,
  done,
  title,
  columns,
  money = [],
}: {
  path: string
  done: number
  title: string
  columns: string[]
  money?: string[]
}) {
  const loaded = useLoaded(() => ask<{ data: Thing[] }>('GET', path), [path, done])
  return (
    <section>
      <h2>{title}</h2>
      {loaded.value ? (
        <Table
          caption={title}
          empty="None."
          columns={columns.map(field => ({
            title: toLabel(field),
            show: (thing: Thing) =>
              money.includes(field) ? formatUsd(thing[field] as number) : formatValue(thing[field]),
          }))}
          rows={loaded.value.data}
        />
      ) : (
        <Waiting {...loaded} />
      )}
    </section>
  )
}

/** What else can be done with one thing, and what came of it. */
function Action({
  noun,
  path,
  action,
  about,
  onDone,
}: {
  noun: NounPage
  path: string
  action: string
  about: string
  onDone: () => void
}) {
  const loaded = useLoaded(async () => {
    const { paths } = await describe()
    const found = Object.keys(paths).find(
      one => one.startsWith(`/api/v1${noun.path}/{`) && one.endsWith(`}/${action}`),
    )
    const { post, put } = (found && paths[found]) || {}
    return post ? { method: 'POST', described: post } : put && { method: 'PUT', described: put }
  }, [noun.path, action])
  const [answer, setAnswer] = useState<{ key?: string; data?: Thing } | null>(null)
  if (!loaded.value) return null
  const { method, described } = loaded.value
  const schema = withPlaces(action, described, getBody(described))
  const run = async ({ ...body }: Thing) => {
    setAnswer(null)
    const to = action.replace(/\{(\w+)\}/g, (_, name: string) => {
      const { [name]: value, ...rest } = body
      body = rest
      return encodeURIComponent(String(value))
    })
    setAnswer(await ask(method, `${path}/${to}`, getBody(described) ? body : undefined))
    onDone()
  }
  return (
    <details open={answer !== null}>
      <summary>{described.summary}</summary>
      <p class="quiet">{about}</p>
      <Form schema={schema} example={getExample(described)} action="Do it" onSubmit={run} />
      {answer?.key ? <NewSecret secret={answer.key} /> : null}
      {answer && !answer.key ? (
        <p class="notice" role="status">
          {formatValue(answer.data ?? 'Done')}
        </p>
      ) : null}
    </details>
  )
}

/** The schema of a body, with what the path of an action has names for. */
function withPlaces(action: string, { parameters = [] }: Described, body: Schema = {}): Schema {
  const places = parameters.filter(({ name }) => action.includes(`{${name}}`))
  return {
    ...body,
    properties: {
      ...Object.fromEntries(
        places.map(({ name, schema, description }) => [name, { ...schema, description }]),
      ),
      ...body.properties,
    },
    required: [...places.map(({ name }) => name), ...(body.required ?? [])],
  }
}

function OneThing({ name, noun, session, id }: NounProps & { id: string }) {
  const path = `${noun.path}/${encodeURIComponent(id)}`
  const loaded = useLoaded(async () => {
    const [{ answer, tag }, changing, removal] = await Promise.all([
      read<{ data?: Thing } & Thing>(path),
      findDescribed(noun, 'patch', true),
      findDescribed(noun, 'delete', true),
    ])
    return { thing: answer.data ?? answer, tag, changing, removal }
  }, [path])
  const [isDeleting, setDeleting] = useState(false)
  const [done, setDone] = useState(0)
  const acted = () => {
    setDone(done + 1)
    loaded.reload()
  }
  const [saved, setSaved] = useState(0)
  const [conflict, setConflict] = useState<Error | null>(null)
  if (!loaded.value) return <Waiting {...loaded} />
  const { thing, tag, changing, removal } = loaded.value
  const schema = getBody(changing)
  const changeUnlessStale = async (method: 'PATCH' | 'DELETE', next: () => void, body?: Thing) => {
    setConflict(null)
    try {
      await change(method, path, tag, body)
    } catch (refusal) {
      if (!(refusal instanceof ApiError && refusal.status === 412)) throw refusal
      setConflict(new Error('This was changed meanwhile, in another place. Load it again first.'))
      setDeleting(false)
      return
    }
    next()
  }
  const showAgain = () => {
    setConflict(null)
    setSaved(saved + 1)
    loaded.reload()
  }
  return (
    <>
      <p>
        <a href={link([name])}>{noun.title}</a>
      </p>
      <header class="head">
        <h1>{formatValue(thing.name ?? thing.slug ?? thing.filename ?? id)}</h1>
        {removal ? (
          <button type="button" class="danger" onClick={() => setDeleting(true)}>
            Delete
          </button>
        ) : null}
      </header>
      <dl class="facts">
        {Object.entries(thing).map(([field, value]) => (
          <div key={field}>
            <dt>{toLabel(field)}</dt>
            <dd>{noun.money?.includes(field) ? formatUsd(value as number) : formatValue(value)}</dd>
          </div>
        ))}
      </dl>
      {Object.entries(noun.parts ?? {}).map(([part, shown]) => (
        <Part key={part} path={`${path}/${part}`} done={done} {...shown} />
      ))}
      {Object.entries(noun.actions ?? {}).map(([action, about]) => (
        <Action key={action} {...{ noun, path, action, about }} onDone={acted} />
      ))}
      {schema ? (
        <section>
          <h2>Change it</h2>
          {conflict ? (
            <>
              <Problem error={conflict} />
              <button type="button" onClick={showAgain}>
                Load it again
              </button>
            </>
          ) : null}
          <Form
            key={`${saved}-${String(thing.updated_at)}`}
            schema={restrict(noun, session, schema)}
            now={thing}
            action="Save"
            onSubmit={(body: Thing) => changeUnlessStale('PATCH', showAgain, body)}
          />
        </section>
      ) : null}
      {isDeleting ? (
        <Confirm
          title={`Delete this ${noun.one}?`}
          action="Delete"
          onCancel={() => setDeleting(false)}
          onConfirm={() => changeUnlessStale('DELETE', () => go(link([name])))}
        >
          <p>{noun.loss} It cannot be undone.</p>
        </Confirm>
      ) : null}
    </>
  )
}
