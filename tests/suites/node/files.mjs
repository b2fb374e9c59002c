// Runs each file of node-postgres' own tests by itself, as its Makefile does, and writes a report in JUnit's form.
// A file whose process fails has its last test failed: the harness of these tests ends with the first failure.
import { spawnSync } from 'node:child_process'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const SECONDS_MAX = 60
const [only] = process.argv.slice(2)

function files (folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    return entry.isDirectory() ? files(path) : entry.name.endsWith('-tests.js') ? [path] : []
  })
}

function escaped (text) {
  const entities = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
  // eslint-disable-next-line no-control-regex
  return text.replace(/[&<>"]/g, (found) => entities[found]).replace(/[\x00-\x08\x0b\x0c\x0e-\x1f]/g, '?')
}

function cases (path) {
  const done = spawnSync(process.execPath, [path], { encoding: 'utf8', timeout: SECONDS_MAX * 1000 })
  const output = done.stdout + done.stderr
  process.stdout.write(`${path}: ${done.status}\n${output}\n`)
  const passed = [...output.matchAll(/^ {2}(.*) ✔$/gm)].map((found) => `<testcase name="${escaped(found[1])}" `)
  const skipped = [...output.matchAll(/^ {2}(.*) \? - SKIPPED$/gm)].map((found) => `<testcase name="${escaped(found[1])}" `)
  const folder = `classname="${escaped(path)}"`
  return [
    ...passed.map((begun) => `${begun}${folder}/>`),
    ...skipped.map((begun) => `${begun}${folder}><skipped/></testcase>`),
    done.status === 0
      ? `<testcase name="(the file)" ${folder}/>`
      : `<testcase name="(the file)" ${folder}><failure>${escaped(output.slice(-4000))}</failure></testcase>`
  ]
}

const found = files(join('test', 'integration')).sort().filter((path) => !only || path.includes(only)).flatMap(cases)
writeFileSync(process.env.SUITE_REPORT, `<testsuite>\n${found.join('\n')}\n</testsuite>\n`)
