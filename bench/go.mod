module github.com/factmill/factmill/bench

go 1.26.0

replace github.com/factmill/factmill/pkg => ../pkg
