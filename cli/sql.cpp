/// \file
/// Implements `kscout sql`: runs a query over datasets with an installed DuckDB.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/json_fields.h"
#include "core/log.h"
#include "core/parquet_checksum.h"
#include "options.h"
#include "sibling.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct SqlOptions {
  std::string query;
  std::vector<std::string> files;
  Format format = Format::text;
};

/// Prints the result like `duckdb -json`: an array of objects.
constexpr std::string_view kPython = R"(
import json, math, sys
import duckdb
def plain(value):
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
try:
    answer = duckdb.connect().execute(sys.argv[1]).execute(sys.argv[2])
    names = [column[0] for column in answer.description]
    print(json.dumps([dict(zip(names, map(plain, row))) for row in answer.fetchall()]))
except duckdb.Error as error:
    sys.exit(str(error))
)";

/// Quotes a text for SQL.
std::string sql_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "''" : std::string(1, c);
  return quoted + "'";
}

/// A view of the files as one table called data.
std::string view_of(const std::vector<std::string>& files) {
  std::string list;
  bool csv = false;
  for (const std::string& file : files) {
    if (!std::filesystem::is_regular_file(file)) {
      fail(Errc::not_found, "{}: is no file{}", file,
           std::filesystem::is_directory(file) ? "; turn a sweep's folder into one by kscout dataset import"
                                               : "");
    }
    const bool is_csv = file.ends_with(".csv");
    if (!list.empty() && is_csv != csv)
      fail(Errc::invalid_argument, "{}: give datasets of one kind, all .parquet or all .csv", file);
    csv = is_csv;
    if (!is_csv) check_parquet_checksum(file);
    list += (list.empty() ? "" : ", ") + sql_quoted(file);
  }
  return fmt::format("CREATE VIEW data AS SELECT * FROM {}([{}], union_by_name = true)",
                     csv ? "read_csv_auto" : "read_parquet", list);
}

/// The command that runs the query; throws MissingPackage when DuckDB is not installed.
std::string command_for(const std::string& view, const std::string& query) {
  if (is_program("duckdb")) return fmt::format("duckdb -json -c {}", shell_word(view + "; " + query));
  const std::string python = shell_word(active_python());
  const std::string has_duckdb = python + " -c 'import duckdb' >/dev/null 2>&1";
  if (std::system(has_duckdb.c_str()) == 0)
    return fmt::format("{} -c {} {} {}", python, shell_word(kPython), shell_word(view), shell_word(query));
  throw MissingPackage(fmt::format(
      "DuckDB answers queries, and neither its program nor its Python package is here: install the program "
      "duckdb (duckdb.org), or: {} -m pip install duckdb (KSCOUT_PYTHON names another Python)",
      active_python()));
}

std::string output_of(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  if (!pipe) fail(Errc::device_failure, "no process can be started");
  std::string output;
  char bytes[1 << 14];
  for (std::size_t got = 0; (got = std::fread(bytes, 1, sizeof(bytes), pipe)) > 0;) output.append(bytes, got);
  const int status = pclose(pipe);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail(Errc::invalid_argument, "DuckDB rejects the query; the table is called data");
  return output;
}

Cell cell_of(const Json& value) {
  if (value.is_null()) return number(std::nan(""));
  if (value.is_string()) return text(value.get<std::string>());
  if (value.is_number_float()) return number(value.get<double>());
  return {value.dump(), false};
}

void sql_verb(const SqlOptions& options) {
  const std::string output = output_of(command_for(view_of(options.files), options.query));
  const Json rows = output.find_first_not_of(" \n") == std::string::npos
                        ? Json::array()
                        : Json::parse(output, nullptr, /*allow_exceptions=*/false);
  if (!rows.is_array()) fail(Errc::corrupt_data, "DuckDB printed no JSON: {}", output.substr(0, 200));
  std::vector<std::string> columns;
  if (!rows.empty()) {
    for (const auto& [name, value] : rows.front().items()) columns.push_back(name);
  }
  Table table(columns);
  for (const Json& row : rows) {
    std::vector<Cell> cells;
    for (const std::string& name : columns) cells.push_back(cell_of(row.at(name)));
    table.add_row(std::move(cells));
  }
  table.print(options.format);
}

}  // namespace

void setup_sql(CLI::App& verb) {
  const auto options = std::make_shared<SqlOptions>();
  verb.add_option("query", options->query, "one SQL statement; the rows are in the table `data`")->required();
  verb.add_option("files", options->files, "datasets, .parquet or .csv")->required();
  add_format_option(verb, options->format);
  verb.footer(
      "Columns: docs/formats/dataset.md. Needs the program duckdb or its Python package (of the "
      "Python\n"
      "in KSCOUT_PYTHON, else of python3).\n\n"
      "examples\n"
      "  kscout sql \"SELECT config, count(*) AS rows FROM data GROUP BY config ORDER BY rows DESC LIMIT 5\" "
      "data.parquet\n"
      "  kscout sql \"SELECT m, n, k, min(time_us) FROM data WHERE status = 'ok' GROUP BY ALL\" a.parquet "
      "b.parquet --format csv\n\n"
      "exit status: 0 done, 2 wrong arguments or query, 4 no DuckDB, or a file failure");
  verb.callback([options] { sql_verb(*options); });
}

}  // namespace kscout::cli
